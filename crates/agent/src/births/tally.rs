//! What a census has counted, by site and by kind. It is kept for the command to read until the next census. Used by
//! `living` and `languages::ruby::births::census`.

use super::books::{Books, site_at};
use crate::memory::store::List;
use wire::{Counts, Ledger};

/// The counts of a census.
pub struct Tally {
    pub sites: List<Counts>,
    pub kinds: List<Counts>,
    /// The last class and its kind, because neighbours in the heap are often of the same class.
    pub last: (u64, u32),
}

impl Tally {
    /// Nothing is counted.
    pub const fn new() -> Self {
        Tally {
            sites: List::new(),
            kinds: List::new(),
            last: (0, 0),
        }
    }

    /// Unmaps the counts.
    pub fn free(&mut self, ledger: &mut Ledger) {
        self.sites.free();
        self.kinds.free();
        self.last = (0, 0);
        (ledger.site_counts, ledger.site_count) = (0, 0);
        (ledger.kind_counts, ledger.kind_count) = (0, 0);
    }

    /// Adds the births to the counts, and tells the command where these are. `None` = there was no memory for some of them.
    pub fn add_births(&mut self, books: &Books, ledger: &mut Ledger) -> Option<()> {
        let mut whole = Some(());
        let mut add = |number, born| match row(&mut self.sites, number) {
            Some(counts) => counts.born = counts.born.wrapping_add(born),
            None => whole = None,
        };
        for number in 1..ledger.sites.length as u32 {
            add(number, site_at(&ledger.sites, number).born);
        }
        books.each_entry(add);
        (ledger.site_counts, ledger.site_count) =
            (self.sites.address(), u64::from(self.sites.len()));
        (ledger.kind_counts, ledger.kind_count) =
            (self.kinds.address(), u64::from(self.kinds.len()));
        whole
    }

    /// Bytes mapped for the counts.
    pub fn mapped(&self) -> u64 {
        self.sites.mapped() + self.kinds.mapped()
    }
}

/// Returns the counts of row `number`, which is added if needed.
pub fn row(list: &mut List<Counts>, number: u32) -> Option<&mut Counts> {
    if number >= list.len() {
        // Fresh memory is zero, and a list that was freed begins anew.
        list.resize((number + 1).next_multiple_of(1024))?;
    }
    // SAFETY: the list was resized to more than `number` elements, and the result borrows the list
    // mutably.
    Some(unsafe { &mut *list.get(number) })
}

/// Counts something that lives and was born in this epoch.
#[inline]
pub fn add_living(counts: &mut Counts, ledger: &Ledger, epoch: u32, bytes: u64) {
    let interval = ledger.intervals.get(epoch as usize);
    if let Some(alive) = interval.and_then(|at| counts.alive.get_mut(usize::from(*at))) {
        *alive = alive.saturating_add(1);
    }
    counts.live += 1;
    counts.bytes += bytes;
}
