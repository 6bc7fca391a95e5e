//! Finds the line at which each object of a copy of a guest was made, in the copy's memory, which does not change.

use std::sync::Arc;

use process::error::Result;
use process::memory::GuestMemory;
use wire::slots::site_of;

use crate::ledger::Reader;
use crate::numbers::{Numbers, Slots};

/// Reads the lines of one copy's objects. The page of the last object is kept, so that objects looked up in the order of their addresses
/// cost one read for each page.
pub(crate) struct Lines<'a> {
    memory: &'a GuestMemory,
    slots: Slots<'a>,
    /// The page of the last object, and its numbers.
    page: Option<(u64, Numbers)>,
    reader: Reader,
}

impl<'a> Lines<'a> {
    /// Uses the agent's ledger at the address `ledger` of the copy.
    pub(crate) fn of(memory: &'a GuestMemory, ledger: u64) -> Result<Self> {
        Ok(Lines {
            memory,
            slots: Slots::of(memory, ledger)?,
            page: None,
            reader: Reader::new(ledger, false),
        })
    }
}

impl languages::snapshot::births::Lines for Lines<'_> {
    fn site(&mut self, address: u64) -> Result<Option<u32>> {
        let page = self.slots.page(address);
        if self.page.as_ref().is_none_or(|(last, _)| *last != page) {
            self.page = Some((page, self.slots.numbers(address)?));
        }
        let number = self.page.as_ref().map_or(0, |(_, page)| page.of(address));
        Ok(Some(site_of(number)).filter(|site| *site != 0))
    }

    fn line(&mut self, site: u32) -> Result<Option<(Arc<str>, u32)>> {
        let place = self.reader.places(self.memory, &[site])?.pop().flatten();
        let line = place.and_then(|place| place.line);
        Ok(line.map(|line| (line.path.clone(), line.line)))
    }
}
