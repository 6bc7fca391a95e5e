//! An account by name: the lines and types that it has counted, as text. Used by `languages::ruby::births::agent` and
//! `languages::ruby::births::door`.
//!
//! ```text
//!   rows of an account          lines                         types
//!   site, born  ──► shown? ──►  path, line, type, born  ──►   name, born
//! ```
//!
//! Births that the program's own code cannot see are left out, and so are those in the folder of the library that asks. Two sites are one
//! line if path, line and type have the same text: two methods on one line are two sites, and so are two classes of the same name. Nothing
//! here calls the VM, so that what is read does not change.

mod json;

use super::books::{frame_at, kind_at, site_at, text_at};
use crate::memory::store::{List, mix};
use core::cmp::Reverse;
use core::slice;
use wire::accounts::ROWS;
use wire::ledger::{ANONYMOUS, INTERNAL};
use wire::{AccountRow, Kind, Ledger};

/// A row of the answer.
#[derive(Clone, Copy)]
pub struct Line {
    /// Offset of the path's text; [`NOWHERE`] = no code ran.
    pub path: u32,
    /// The line in it.
    pub line: u32,
    /// Index of its [`Name`].
    pub name: u32,
    /// The first of the sites that make up this line.
    pub site: u32,
    /// Births of this type at this line, of all its sites together.
    pub born: u64,
}

/// The path of births while no code of the program ran.
pub const NOWHERE: u32 = u32::MAX;

/// A type of the answer.
#[derive(Clone, Copy)]
pub struct Name {
    /// One kind with that name.
    pub kind: Kind,
    /// Births of this type at all lines together.
    pub born: u64,
}

/// The lines and types of one account at a time. Its memory is used again for the next one.
pub struct Summary {
    /// The lines; after [`Summary::sort`] the one with the most births comes first.
    pub lines: List<Line>,
    /// Types, in the order of the account.
    names: List<Name>,
    /// Births of all lines.
    pub created: u64,
    by_place: Stamped,
    by_name: Stamped,
    /// Path prefix of the library's own code; empty = it has none.
    own: List<u8>,
    /// The answer as text.
    text: List<u8>,
    /// For each site, 1 if the library knows its name.
    known: List<u8>,
    /// Values for the VM, from which an answer is made.
    values: List<u64>,
}

impl Summary {
    pub const fn new() -> Self {
        Summary {
            lines: List::new(),
            names: List::new(),
            created: 0,
            by_place: Stamped::new(),
            by_name: Stamped::new(),
            own: List::new(),
            text: List::new(),
            known: List::new(),
            values: List::new(),
        }
    }

    /// Unmaps the rows of the summary, their names and texts, and the indices of these.
    pub fn free(&mut self) {
        self.lines.free();
        self.names.free();
        self.by_place.places.free();
        self.by_name.places.free();
        self.own.free();
        self.text.free();
        self.known.free();
        self.values.free();
    }

    /// Excludes births in files whose paths begin with `paths`.
    pub fn leave_out(&mut self, paths: &[u8]) -> Option<()> {
        self.own.clear_to(0);
        self.own.extend(paths)
    }

    /// Collects the lines and types of these rows. `None`: there is no memory.
    pub fn gather(
        &mut self,
        ledger: &Ledger,
        rows: impl Iterator<Item = AccountRow>,
    ) -> Option<()> {
        self.lines.clear_to(0);
        self.names.clear_to(0);
        self.created = 0;
        self.by_place.begin()?;
        self.by_name.begin()?;
        for row in rows.take(ROWS) {
            self.add(ledger, row)?;
        }
        Some(())
    }

    /// Sorts the lines, the one with the most births first.
    pub fn sort(&mut self) {
        let lines = self.lines.all_mut();
        lines.sort_unstable_by_key(|line| (Reverse(line.born), line.site));
    }

    fn add(&mut self, ledger: &Ledger, row: AccountRow) -> Option<()> {
        let site = match row.site {
            0 => return Some(()),
            number if u64::from(number) < ledger.sites.length => site_at(&ledger.sites, number),
            _ => return Some(()),
        };
        if row.born == 0 || site.kind == 0 {
            return Some(());
        }
        let kind = kind_at(&ledger.kinds, site.kind);
        let frame = frame_at(&ledger.frames, site.place);
        if kind.flags & INTERNAL != 0 || self.is_own(ledger, frame.path) {
            return Some(());
        }
        let path = if site.place == 0 { NOWHERE } else { frame.path };
        let born = u64::from(row.born);
        self.created += born;
        let name = self.name(&kind)?;
        let lines = &mut self.lines;
        let hash = mix(
            u64::from(path) << 32 | u64::from(frame.line),
            u64::from(name),
        );
        let found = self.by_place.find(hash, lines.len(), |number| {
            lines
                .all()
                .get(number as usize)
                .is_some_and(|line| (line.path, line.line, line.name) == (path, frame.line, name))
        });
        match lines.all_mut().get_mut(found as usize) {
            Some(line) => line.born += born,
            None => {
                lines.push(Line {
                    path,
                    line: frame.line,
                    name,
                    site: row.site,
                    born,
                })?;
            }
        }
        if let Some(name) = self.names.all_mut().get_mut(name as usize) {
            name.born += born;
        }
        Some(())
    }

    /// Returns the index of the type with this kind's name, which is added if it is new.
    fn name(&mut self, kind: &Kind) -> Option<u32> {
        let of = |kind: &Kind| (kind.name, kind.flags & ANONYMOUS, kind.address);
        let names = &mut self.names;
        let hash = mix(u64::from(kind.name), kind.address);
        let found = self.by_name.find(hash, names.len(), |number| {
            let name = names.all().get(number as usize);
            name.is_some_and(|name| of(&name.kind) == of(kind))
        });
        if found == names.len() {
            names.push(Name {
                kind: *kind,
                born: 0,
            })?;
        }
        Some(found)
    }

    /// Whether that path belongs to the library's own code.
    fn is_own(&self, ledger: &Ledger, path: u32) -> bool {
        let own = self.own.all();
        !own.is_empty() && text_at(&ledger.text, path).starts_with(own)
    }

    /// Copies the head of an account and its rows, as they are.
    pub fn copy(&mut self, head: [u64; 2], rows: &[AccountRow]) -> Option<()> {
        self.text.clear_to(0);
        for word in head {
            self.text.extend(&word.to_le_bytes())?;
        }
        // SAFETY: a row is two words of 32 bits without padding, so all of its bytes are initialised; the slice lives as long as `rows`.
        let rows = unsafe { slice::from_raw_parts(rows.as_ptr().cast(), size_of_val(rows)) };
        self.text.extend(rows)
    }

    /// Returns what `copy` has copied.
    pub fn copied(&self) -> &[u8] {
        self.text.all()
    }

    /// Returns site and births of each line, as small Integers of the VM.
    pub fn numbers(&mut self) -> Option<&[u64]> {
        self.values.clear_to(0);
        for line in self.lines.all() {
            self.values.push(u64::from(line.site) << 1 | 1)?;
            self.values.push(line.born << 1 | 1)?;
        }
        Some(self.values.all())
    }

    /// Returns the line with this number if the library does not know its site; from now on it does.
    pub fn unknown(&mut self, number: u32) -> Option<Line> {
        let line = *self.lines.all().get(number as usize)?;
        match self.learns(line.site, line.name) {
            Some(false) => Some(line),
            _ => None,
        }
    }

    /// Notes that the library knows this site, and returns whether it did already. A class without a name never counts as known, because it
    /// may be given a name.
    fn learns(&mut self, site: u32, name: u32) -> Option<bool> {
        let name = self.names.all().get(name as usize)?;
        if name.kind.flags & ANONYMOUS != 0 {
            return Some(false);
        }
        if site >= self.known.len() {
            self.known
                .resize(site.checked_add(1)?.next_power_of_two())?;
        }
        let known = self.known.all_mut().get_mut(site as usize)?;
        Some(core::mem::replace(known, 1) != 0)
    }
}

/// Numbers found by the hash of what they stand for. All are forgotten at once: a place is valid only if it has the stamp of this use.
struct Stamped {
    /// The stamp of the use that took this place, and the number that it noted there.
    places: List<(u32, u32)>,
    stamp: u32,
}

/// Number of places. At most half of them are taken, because each row of an account takes one.
const PLACES: u32 = 2 * ROWS as u32;
const _: () = assert!(PLACES.is_power_of_two());

impl Stamped {
    const fn new() -> Self {
        Stamped {
            places: List::new(),
            stamp: 0,
        }
    }

    /// Begins a new use, in which no number is known yet; `None` if there is no memory.
    fn begin(&mut self) -> Option<()> {
        self.places.resize(PLACES)?;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.places.all_mut().fill((0, 0));
            self.stamp = 1;
        }
        Some(())
    }

    /// Returns the number with this hash for which `same` returns true. If there is none, `fresh` is added and returned.
    fn find(&mut self, hash: u64, fresh: u32, mut same: impl FnMut(u32) -> bool) -> u32 {
        let stamp = self.stamp;
        let places = self.places.all_mut();
        for step in 0..u64::from(PLACES) {
            let at = hash.wrapping_add(step) as usize & (PLACES as usize - 1);
            let Some(place) = places.get_mut(at) else {
                break;
            };
            if place.0 != stamp {
                *place = (stamp, fresh);
                break;
            }
            if same(place.1) {
                return place.1;
            }
        }
        fresh
    }
}

#[cfg(test)]
mod tests;
