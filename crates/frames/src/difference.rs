//! Compares the frames of two builds of one file. Used by the crates `report` and `lancet`.
//!
//! Functions are compared by their names, demangled and without the hash that the Rust compiler adds, because addresses
//! change with each build. Functions that share a name (static ones of several files) are compared in the order of their
//! sizes. A function that has no name cannot be found again; there is a count of these.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Frame, Scan};

/// Which changes are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Limit of the rows.
    pub rows: usize,
    /// Frames that grew or came, and have more bytes than this, are counted in [`Difference::larger`].
    pub max: Option<u64>,
}

/// A function whose frame is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name, demangled.
    pub name: String,
    /// Its frame in the old file; `None`: it is new.
    pub old: Option<Frame>,
    /// Its frame in the new file; `None`: it is gone.
    pub new: Option<Frame>,
}

/// How many functions there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub struct Counts {
    pub grew: u64,
    pub came: u64,
    pub shrank: u64,
    pub gone: u64,
    pub same: u64,
    /// Functions without a name in the old file, and in the new one.
    pub unnamed: (u64, u64),
}

/// The frames that differ between two files.
#[derive(Debug)]
pub struct Difference {
    /// The old file.
    pub old: Scan,
    /// The new file.
    pub new: Scan,
    /// The changes: what grew most comes first, what shrank most last.
    pub changes: Vec<Change>,
    /// The number of changes that are not among these.
    pub more: u64,
    /// How many functions there are of each kind.
    pub counts: Counts,
    /// The number of frames that grew or came and are larger than [`Wanted::max`].
    pub larger: u64,
    /// The number of functions of the new file without a name whose frames are larger than [`Wanted::max`]. Nobody knows whether
    /// they grew.
    pub larger_unnamed: u64,
}

impl Change {
    /// Returns by how many bytes it grew; all of a new one, and less than nothing for one that shrank or is gone.
    pub fn growth(&self) -> i64 {
        let bytes = |frame: &Option<Frame>| frame.as_ref().map_or(0, |frame| frame.bytes as i64);
        bytes(&self.new) - bytes(&self.old)
    }

    /// Returns whether anything about the frame is another than it was: its size, or whether it has one that is decided at
    /// run time.
    fn is_one(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => (old.bytes, old.dynamic) != (new.bytes, new.dynamic),
            _ => true,
        }
    }
}

impl Difference {
    /// Compares two files.
    pub fn new(old: Scan, new: Scan, wanted: Wanted) -> Difference {
        let (before, unnamed_before) = named(&old);
        let (mut after, unnamed_after) = named(&new);
        let mut counts = Counts {
            unnamed: (unnamed_before.len() as u64, unnamed_after.len() as u64),
            ..Counts::default()
        };
        let mut changes = Vec::new();
        for (name, old) in before {
            let new = after.remove(&name).unwrap_or_default();
            pair(&name, old, new, &mut changes);
        }
        for (name, new) in after {
            pair(&name, Vec::new(), new, &mut changes);
        }
        for change in &changes {
            *match (&change.old, &change.new) {
                (None, _) => &mut counts.came,
                (_, None) => &mut counts.gone,
                _ if !change.is_one() => &mut counts.same,
                _ if change.growth() < 0 => &mut counts.shrank,
                _ => &mut counts.grew,
            } += 1;
        }
        changes.retain(Change::is_one);
        let larger = changes.iter().filter(|change| {
            let grew = change.old.is_none() || change.growth() > 0;
            let bytes = change.new.as_ref().map_or(0, |frame| frame.bytes);
            grew && wanted.max.is_some_and(|max| bytes > max)
        });
        let larger = larger.count() as u64;
        let unnamed = unnamed_after.iter();
        let unnamed = unnamed.filter(|frame| wanted.max.is_some_and(|max| frame.bytes > max));
        let larger_unnamed = unnamed.count() as u64;
        // The sort is stable, so names stand in their order.
        changes.sort_by_key(|change| Reverse(change.growth()));
        let more = changes.len().saturating_sub(wanted.rows) as u64;
        changes.truncate(wanted.rows);
        Difference {
            changes,
            more,
            counts,
            larger,
            larger_unnamed,
            old,
            new,
        }
    }
}

/// Returns the frames of each name, the biggest first, and those that have none.
fn named(scan: &Scan) -> (BTreeMap<String, Vec<Frame>>, Vec<Frame>) {
    let mut named: BTreeMap<String, Vec<Frame>> = BTreeMap::new();
    let mut unnamed = Vec::new();
    for frame in scan.frames().iter().filter(|frame| !frame.dispatcher) {
        match scan.name(frame) {
            Some(name) => named.entry(name).or_default().push(frame.clone()),
            None => unnamed.push(frame.clone()),
        }
    }
    (named, unnamed)
}

/// Puts functions of one name together, in the order of their sizes.
fn pair(name: &str, old: Vec<Frame>, new: Vec<Frame>, changes: &mut Vec<Change>) {
    let count = old.len().max(new.len());
    let (mut old, mut new) = (old.into_iter(), new.into_iter());
    changes.extend((0..count).map(|_| Change {
        name: name.to_owned(),
        old: old.next(),
        new: new.next(),
    }));
}
