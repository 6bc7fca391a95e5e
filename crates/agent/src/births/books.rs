//! The books of births: which birth belongs to which row of the report. Used by `living`,
//! `languages::ruby::births::birth`, `languages::python::births::counting` and others.
//!
//! ```text
//!   hot, one lookup a birth             cold, once for each new (iseq, pc, class)
//!   (iseq, pc, class) ──► Entry ──┬──► Site ──► Frame (or Stack) ──► text
//!                       born += 1 │      └────► Kind ──────────────► text
//!                                 │
//!   Owner of an address  ─ links ─┘   "when a new object is born at this address, these are stale"
//! ```
//!
//! An [`Entry`] is keyed by addresses, and the VM uses addresses again: an evaluated string's code
//! dies and other code is compiled in its place. Everything printed is therefore read into text while
//! the code runs and the class is in use, and an entry is only a cache of where the births go. Code and
//! classes are objects themselves, so their birth passes through the same hook: [`Books::reborn`] then
//! drops every entry that rests on the address. What was counted stays, in the [`Site`].
//!
//! So the books grow with the rows of the report, not with the births, and not with code that is
//! evaluated again and again.

mod owners;
mod records;
mod rows;

use crate::births::texts::Texts;
use crate::memory::store::{self, Index, List, mix};
use owners::{Link, Owner};
pub use records::{frame_at, kind_at, site_at, text_at};
use wire::ledger::{MEASURE_EVERY, MEASURE_FIRST};
use wire::{Entry, Frame, Kind, Ledger, Site};

/// Most frames of a call path, including the one that marks a cut path.
pub const DEEPEST: usize = wire::ledger::DEEPEST + 1;

/// The frame that marks a cut path; no code has this address.
pub const CUT_HERE: (u64, u64) = (0, 0);

/// The site of an entry whose code is the VM's own (`<internal:kernel>`). What is born there is booked at the line that called it. Births
/// that such an entry counts belong to no site; record 0 is never read.
pub const OUTWARD: u32 = 0;

/// What the agent has counted since it began to watch, and the indexes by which it finds the records of the [`Ledger`] again. There is one,
/// used only by the thread that holds the VM's lock.
pub struct Books {
    entries: List<Entry>,
    free_entry: u32,
    by_key: Index,
    owners: List<Owner>,
    free_owner: u32,
    by_address: Index,
    links: List<Link>,
    free_link: u32,
    free_site: u32,
    /// The first of the sites that were freed since the last census; 0 = there is none. They are used again after the next census, because
    /// the command may still be reading the counts of the last one.
    freed_sites: u32,
    by_text: Index,
    by_frame: Index,
    by_kind: Index,
    by_site: Index,
    by_stack: Index,
    path: [u32; DEEPEST],
}

/// What identifies the site of a birth, as the hook sees it.
#[derive(Clone, Copy)]
pub struct Key {
    /// Address of the iseq, or one half of the call path's hash.
    pub code: u64,
    /// The pc in that iseq, or the other half of the hash.
    pub pc: u64,
    /// Address of the object's class, or the small number by which its language names a type that has none.
    pub class: u64,
}

impl Key {
    #[inline]
    fn hash(self) -> u64 {
        // One multiplication suffices: keys with the same pc have the same code and differ only by their class.
        mix(self.pc.rotate_left(32) ^ self.class, self.code)
    }

    #[inline]
    fn is_of(self, entry: &Entry) -> bool {
        entry.pc == self.pc && entry.class == self.class && entry.code == self.code
    }
}

/// Whether the size of an entry's birth number `number`, counted from 1, is taken: after the first ones of one of each
/// [`MEASURE_EVERY`]. Which one of them it is differs, because a line may make large and small objects in turn.
#[inline(always)]
fn is_measured(number: u64) -> bool {
    const { assert!(MEASURE_EVERY.is_power_of_two()) };
    let group = number / MEASURE_EVERY;
    // Fibonacci hashing: the uppermost bits of the product are spread evenly.
    let place = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - MEASURE_EVERY.ilog2());
    number <= MEASURE_FIRST || number % MEASURE_EVERY == place
}

/// Returns the number of a new entry's first birth. If an earlier entry of the same site was dropped, its births count too: the numbers go
/// on from the site's, because only the sum of both is reported.
fn first_birth(ledger: &mut Ledger, number: u32) -> u64 {
    let mut site = site_at(&ledger.sites, number);
    if u64::from(site.measured) < MEASURE_FIRST {
        return 1;
    }
    site.born = site.born.wrapping_sub(MEASURE_FIRST);
    records::set_site(&mut ledger.sites, number, site);
    1 + MEASURE_FIRST
}

fn key_of(entry: &Entry) -> Key {
    Key {
        code: entry.code,
        pc: entry.pc,
        class: entry.class,
    }
}

/// Where a birth was booked.
#[derive(Clone, Copy)]
pub struct Booked {
    /// The number of its site, or [`OUTWARD`].
    pub site: u32,
    /// Whether the size of this object is taken.
    pub measure: bool,
}

/// What entering a birth needs besides the books.
pub struct Desk<'a, T> {
    /// The ledger, which the command reads.
    pub ledger: &'a mut Ledger,
    /// The reader that turns structures of the VM into text.
    pub names: &'a mut T,
}

impl Books {
    pub const fn new() -> Self {
        Books {
            entries: List::new(),
            free_entry: 0,
            by_key: Index::new(),
            owners: List::new(),
            free_owner: 0,
            by_address: Index::new(),
            links: List::new(),
            free_link: 0,
            free_site: 0,
            freed_sites: 0,
            by_text: Index::new(),
            by_frame: Index::new(),
            by_kind: Index::new(),
            by_site: Index::new(),
            by_stack: Index::new(),
            path: [0; DEEPEST],
        }
    }

    /// Takes record 0 of each kind, which stands for none, so that births can be counted; `None` if there is no memory.
    pub fn open(&mut self, ledger: &mut Ledger) -> Option<()> {
        self.entries.push(Entry::default())?;
        self.owners.push(Owner::of(0, 0))?;
        self.links.push(Link::NONE)?;
        store::append(&mut ledger.sites, Site::default())?;
        store::append(&mut ledger.kinds, Kind::default())?;
        store::append(&mut ledger.stacks, 0u32)?;
        let empty = self.text(ledger, b"")?;
        let nowhere = Frame {
            path: empty,
            method: empty,
            line: 0,
            reserved: 0,
        };
        store::append(&mut ledger.frames, nowhere)?;
        self.publish(ledger);
        Some(())
    }

    fn publish(&self, ledger: &mut Ledger) {
        ledger.entries = self.entries.address();
        ledger.entry_count = u64::from(self.entries.len());
    }

    /// Counts a birth whose key is known. `None` = the key is new, and the birth must be counted by `count_new`.
    #[inline]
    pub fn count(&mut self, key: Key) -> Option<Booked> {
        let entries = &self.entries;
        let found = self.by_key.find(key.hash(), |number| {
            // SAFETY: `by_key` holds numbers that `count_new` has added to `entries`, so they are less than its length.
            key.is_of(unsafe { &*entries.get(number) })
        })?;
        // SAFETY: `by_key` holds numbers of `entries` only; the shared reference of the search has ended, and `self` is borrowed mutably.
        let entry = unsafe { &mut *self.entries.get(found) };
        entry.born += 1;
        Some(Booked {
            site: entry.site,
            measure: is_measured(entry.born),
        })
    }

    /// Returns the number of the entry that counts births with this key, for [`count_at`](Self::count_at).
    pub fn entry_of(&self, key: Key) -> Option<u32> {
        let entries = &self.entries;
        self.by_key.find(key.hash(), |number| {
            // SAFETY: `by_key` holds numbers that `count_new` has added to `entries`, so they are less than its length.
            key.is_of(unsafe { &*entries.get(number) })
        })
    }

    /// Counts a birth at the entry with this number, if its key is still this one: two loads less than [`count`](Self::count) for a caller
    /// that remembers the numbers of a few entries.
    #[inline(always)]
    pub fn count_at(&mut self, number: u32, key: Key) -> Option<Booked> {
        if number >= self.entries.len() {
            return None;
        }
        // SAFETY: `number` was compared with the length just now; `self` is borrowed mutably.
        let entry = unsafe { &mut *self.entries.get(number) };
        if !key.is_of(entry) {
            return None;
        }
        entry.born += 1;
        Some(Booked {
            site: entry.site,
            measure: is_measured(entry.born),
        })
    }

    /// Books a birth with a new key. `frames` are the code that the entry rests on, innermost first.
    pub fn count_new(
        &mut self,
        desk: &mut Desk<impl Texts>,
        key: Key,
        frames: &[(u64, u64)],
        paths: bool,
    ) -> Option<Booked> {
        let kind = self.kind_of(desk, key.class)?;
        let is_own = |(code, _): &(u64, u64)| desk.names.is_own(*code);
        let site = if !paths && frames.first().is_some_and(is_own) {
            OUTWARD
        } else {
            let place = self.place(desk, frames, paths)?;
            self.site(desk.ledger, place, kind)?
        };
        let number = match self.free_entry {
            0 => self.entries.push(Entry::default())?,
            free => free,
        };
        // SAFETY: `number` is an entry that was just appended or taken from the free list, so it is less than the length; `self` is
        // borrowed mutably.
        let entry = unsafe { &mut *self.entries.get(number) };
        if number == self.free_entry {
            self.free_entry = entry.site;
        }
        let born = first_birth(desk.ledger, site);
        *entry = Entry {
            code: key.code,
            pc: key.pc,
            class: key.class,
            born,
            site,
            age: entry.age,
        };
        self.publish(desk.ledger);
        if self.enter(number, kind, frames).is_none() {
            // What is not linked to its code would outlive it.
            self.uncount(number);
            self.retire(desk.ledger, number);
            return None;
        }
        Some(Booked {
            site,
            measure: is_measured(born),
        })
    }

    /// Makes an entry known by its key, and by what it rests on.
    fn enter(&mut self, number: u32, kind: u32, frames: &[(u64, u64)]) -> Option<()> {
        let entries = &self.entries;
        // SAFETY: the caller has added the number to `entries`, and so has `count_new` those in `by_key`; the record is copied.
        let Entry { class, age, .. } = unsafe { *entries.get(number) };
        self.by_key.insert(number, |number| {
            // SAFETY: as above.
            key_of(unsafe { &*entries.get(number) }).hash()
        })?;
        self.link(class, kind, number, age)?;
        for (code, _) in frames.iter().filter(|frame| **frame != CUT_HERE) {
            self.link(*code, 0, number, age)?;
        }
        Some(())
    }

    /// Takes back a birth that the entry with this number has counted.
    fn uncount(&mut self, number: u32) {
        if number < self.entries.len() {
            // SAFETY: `number` was compared with the length just now; `self` is borrowed mutably.
            let entry = unsafe { &mut *self.entries.get(number) };
            entry.born = entry.born.wrapping_sub(1);
        }
    }

    /// Calls `of` with the site and the births of each entry.
    pub fn each_entry(&self, mut of: impl FnMut(u32, u64)) {
        for number in 1..self.entries.len() {
            // SAFETY: `number` is less than the length, and `self` is borrowed, so no entry changes.
            let entry = unsafe { &*self.entries.get(number) };
            if entry.born != 0 {
                of(entry.site, entry.born);
            }
        }
    }

    /// Unmaps the entries and every index of them: their numbers mean nothing afterwards.
    pub fn free(&mut self, ledger: &mut Ledger) {
        self.entries.free();
        self.owners.free();
        self.links.free();
        for index in [
            &mut self.by_key,
            &mut self.by_address,
            &mut self.by_text,
            &mut self.by_frame,
            &mut self.by_kind,
            &mut self.by_site,
            &mut self.by_stack,
        ] {
            index.free();
        }
        (
            self.free_entry,
            self.free_owner,
            self.free_link,
            self.free_site,
            self.freed_sites,
        ) = (0, 0, 0, 0, 0);
        store::free::<Site>(&mut ledger.sites);
        store::free::<Frame>(&mut ledger.frames);
        store::free::<Kind>(&mut ledger.kinds);
        store::free::<u32>(&mut ledger.stacks);
        store::free::<u8>(&mut ledger.text);
        (ledger.entries, ledger.entry_count) = (0, 0);
    }

    /// Bytes mapped for the books.
    pub fn mapped(&self, ledger: &Ledger) -> u64 {
        let indexes = [
            &self.by_key,
            &self.by_address,
            &self.by_text,
            &self.by_frame,
            &self.by_kind,
            &self.by_site,
            &self.by_stack,
        ];
        self.entries.mapped()
            + self.owners.mapped()
            + self.links.mapped()
            + indexes.iter().map(|index| index.mapped()).sum::<u64>()
            + store::mapped::<Site>(&ledger.sites)
            + store::mapped::<Frame>(&ledger.frames)
            + store::mapped::<Kind>(&ledger.kinds)
            + store::mapped::<u32>(&ledger.stacks)
            + store::mapped::<u8>(&ledger.text)
    }
}

#[cfg(test)]
mod tests;
