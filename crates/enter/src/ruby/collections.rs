//! Measures the garbage collections of an open guest.

use super::{Opening, Ruby};
use inject::image::Image;
use inject::records::ReadRecords;
use process::error::Result;
use std::mem::offset_of;
use wire::control_page::{COLLECT_FULL, COLLECT_MINOR};
use wire::ledger::KEPT;
use wire::{Collection, Ledger, Purpose, Request};

impl Ruby {
    /// Opens a process and times its collections from then on; births are not
    /// counted.
    ///
    /// # Errors
    /// Those of [`Ruby::open`].
    pub fn open_for_collections(pid: i32, image: &Image) -> Result<Self> {
        Self::open(pid, image, Opening::plain(Purpose::Collections))
    }

    /// Returns the collections since the last call; only the last ones if there are
    /// very many.
    ///
    /// # Errors
    /// The agent's records cannot be read.
    pub fn collections(&mut self) -> Result<Vec<Collection>> {
        let field = |offset: usize| {
            self.memory
                .word(self.resident.header.ledger + offset as u64)
        };
        let count = field(offset_of!(Ledger, collected))?;
        let ring: Vec<Collection> = match count {
            0 => Vec::new(),
            _ => self
                .memory
                .records(field(offset_of!(Ledger, collections))?, KEPT)?,
        };
        let first = self.collected.max(count.saturating_sub(KEPT as u64));
        self.collected = count;
        Ok((first..count)
            .map(|number| ring[number as usize % KEPT])
            .collect())
    }

    /// Makes the VM collect now: all objects, or only the young ones.
    ///
    /// # Errors
    /// The guest did not come to a safe point in time.
    pub fn collect(&mut self, full: bool) -> Result<()> {
        let argument = if full { COLLECT_FULL } else { COLLECT_MINOR };
        self.ask(Request::Collect, argument, "collect its garbage")
    }
}
