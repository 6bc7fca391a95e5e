//! Finds the line at which each object of a copy of a guest was made, in the copy's memory, which does not change.

use std::sync::Arc;

use process::error::Result;
use process::memory::GuestMemory;
use wire::slots::site_of;

use crate::ledger::{Line, Reader};
use crate::numbers::{Numbers, Slots};

/// Reads the lines of one copy's objects. The page of the last object is kept, so that objects looked up in the order of their addresses
/// cost one read for each page.
pub struct Lines<'a> {
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

    /// Returns the site of the object at this address; `None` if it was not made while births were watched. Objects are best looked up in
    /// the order of their pages.
    ///
    /// # Errors
    /// The agent's books cannot be read.
    pub fn site(&mut self, address: u64) -> Result<Option<u32>> {
        let page = self.slots.page(address);
        if self.page.as_ref().is_none_or(|(last, _)| *last != page) {
            self.page = Some((page, self.slots.numbers(address)?));
        }
        let number = self.page.as_ref().map_or(0, |(_, page)| page.of(address));
        Ok(Some(site_of(number)).filter(|site| *site != 0))
    }

    /// Returns the line of a site; `None` if no script ran, or there is no such site.
    ///
    /// # Errors
    /// The agent's books cannot be read, or are damaged.
    pub fn line(&mut self, site: u32) -> Result<Option<Arc<Line>>> {
        let place = self.reader.places(self.memory, &[site])?.pop().flatten();
        Ok(place.and_then(|place| place.line))
    }
}
