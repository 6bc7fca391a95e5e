//! What is new between two snapshots of one process, and who holds it. Used by the crates `lancet` and `report`.
//!
//! An object that was made after the earlier snapshot is new: so it is with all whose birth was seen since then. Of the others
//! one is old if the earlier snapshot has an object at its address of the same birth or, where that is unknown, of the same type,
//! kind and line; an address that was used again by one of those is taken for the old object. An object that a compaction has moved
//! counts as new in the later snapshot, and as gone from the earlier one.

use std::collections::HashMap;

use super::groups::{Group, grouped, keyed};
use super::holders::{Holder, holders};
use crate::analysis::{Analysis, Total};
use crate::snapshot::{Site, Snapshot};
use crate::text::TextId;

/// How the objects of one type have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The type, as a text of the later snapshot.
    pub name: TextId,
    /// Living objects of the type in the earlier snapshot.
    pub before: Total,
    /// Living objects of the type in the later snapshot.
    pub now: Total,
    /// Objects that are new and live.
    pub new: Total,
    /// What the new ones retain; see [`Group::retained`].
    pub retained: u64,
}

/// What has changed. Objects are those of the later snapshot.
#[derive(Debug)]
pub struct Diff {
    /// Births were counted before the earlier snapshot was taken already, so all births between the two were seen.
    pub by_birth: bool,
    /// New objects that live.
    pub new: Total,
    /// Objects that lived before and do not live now.
    pub gone: Total,
    /// Types, those whose new objects retain most first.
    pub types: Vec<Change>,
    /// New objects by the line that made them; empty where no line is known.
    pub sites: Vec<Group<Option<Site>>>,
    /// Who holds the new objects, whoever holds most first.
    pub holders: Vec<Holder>,
}

impl Diff {
    /// Compares two snapshots of one process, of which `earlier` was taken first.
    #[must_use]
    pub fn of(earlier: &Analysis, later: &Analysis) -> Self {
        let (before, now) = (earlier.snapshot(), later.snapshot());
        let taken = before.about().taken_at;
        let by_birth = now.first_birth().is_some_and(|first| first <= taken);
        let mut diff = Self {
            by_birth,
            new: Total::default(),
            gone: Total::default(),
            types: Vec::new(),
            sites: Vec::new(),
            holders: Vec::new(),
        };
        let texts = Texts::of(before, now);
        let same = |old: u32, new: u32| texts.same(before, old, now, new);
        let mut is_new = vec![false; now.len()];
        for object in (0..now.len() as u32).filter(|one| later.is_living(*one)) {
            let old = before
                .at(now.address(object))
                .filter(|old| earlier.is_living(*old));
            if !old.is_some_and(|old| same(old, object)) {
                is_new[object as usize] = true;
                add(&mut diff.new, now.bytes(object));
            }
        }
        for old in (0..before.len() as u32).filter(|one| earlier.is_living(*one)) {
            let object = now
                .at(before.address(old))
                .filter(|one| later.is_living(*one));
            if !object.is_some_and(|object| same(old, object)) {
                add(&mut diff.gone, before.bytes(old));
            }
        }
        diff.types = types(earlier, later, &texts, &is_new);
        if !now.sites.is_empty() {
            let unknown = now.sites.len() as u32;
            let groups = grouped(later, now.sites.len() + 1, |object| {
                let site = now.columns.sites.get(object);
                is_new[object as usize].then(|| site.map_or(unknown, |site| site as u32))
            });
            diff.sites = keyed(groups, |number| {
                Some(now.sites.get(number as usize).copied())
            });
        }
        diff.holders = holders(later, &is_new);
        diff
    }
}

fn add(total: &mut Total, bytes: u64) {
    total.objects += 1;
    total.bytes = total.bytes.saturating_add(bytes);
}

/// The numbers that texts of the earlier snapshot have in the later one.
struct Texts(Vec<Option<TextId>>);

impl Texts {
    fn of(before: &Snapshot, now: &Snapshot) -> Self {
        let texts = (0..now.texts.len() as u32).map(TextId);
        let numbers: HashMap<&[u8], TextId> = texts.map(|id| (now.text(id), id)).collect();
        let texts = (0..before.texts.len() as u32).map(TextId);
        Self(
            texts
                .map(|id| numbers.get(before.text(id)).copied())
                .collect(),
        )
    }

    fn later(&self, id: TextId) -> Option<TextId> {
        self.0.get(id.number() as usize).copied().flatten()
    }

    fn same(&self, before: &Snapshot, old: u32, now: &Snapshot, new: u32) -> bool {
        let births = (before.birth(old), now.birth(new));
        let type_name = self.later(before.type_name(old)) == Some(now.type_name(new));
        if births.1 > before.about().taken_at || !type_name {
            return false;
        }
        if births.0 != 0 && births.1 != 0 {
            return births.0 == births.1;
        }
        let site =
            |snapshot: &Snapshot, object| snapshot.site(object).map(|site| (site.file, site.line));
        let old_site = site(before, old).and_then(|(file, line)| Some((self.later(file)?, line)));
        let kind = before.kind_name(before.kind(old)) == now.kind_name(now.kind(new));
        let sites = old_site.zip(site(now, new));
        kind && sites.is_none_or(|(old, new)| old == new)
    }
}

fn types(earlier: &Analysis, later: &Analysis, texts: &Texts, is_new: &[bool]) -> Vec<Change> {
    let (before, now) = (earlier.snapshot(), later.snapshot());
    let fresh = grouped(later, now.texts.len(), |object| {
        is_new[object as usize].then(|| now.type_name(object).number())
    });
    let mut changes: Vec<Change> = fresh
        .iter()
        .map(|group| Change {
            name: TextId(group.key),
            before: Total::default(),
            now: Total::default(),
            new: Total {
                objects: group.objects,
                bytes: group.bytes,
            },
            retained: group.retained,
        })
        .collect();
    for object in (0..now.len() as u32).filter(|one| later.is_living(*one)) {
        let change = &mut changes[now.type_name(object).number() as usize];
        add(&mut change.now, now.bytes(object));
    }
    for old in (0..before.len() as u32).filter(|one| earlier.is_living(*one)) {
        if let Some(name) = texts.later(before.type_name(old)) {
            add(
                &mut changes[name.number() as usize].before,
                before.bytes(old),
            );
        }
    }
    changes.retain(|change| change.before != change.now || change.new.objects > 0);
    changes.sort_by_key(|change| (std::cmp::Reverse(change.retained), change.name));
    changes
}
