//! Measures the garbage collections of an open guest. Used by `entry`.

use super::Ruby;
use crate::opening::Opening;
use crate::timer::CollectionTimer;
use inject::image::Image;
use inject::records::ReadRecords;
use process::error::Result;
use std::mem::offset_of;
use wire::control_page::{COLLECT_FULL, COLLECT_MINOR};
use wire::ledger::KEPT;
use wire::{Collection, Ledger, Purpose, Request};

/// Opens a process and times its collections from then on; births are not counted.
pub fn open(pid: i32, image: &Image) -> Result<Box<dyn CollectionTimer>> {
    let opening = Opening::plain(Purpose::Collections);
    Ok(Box::new(Ruby::open(pid, image, opening)?))
}

impl CollectionTimer for Ruby {
    fn pid(&self) -> i32 {
        Ruby::pid(self)
    }

    fn is_alive(&self) -> bool {
        Ruby::is_alive(self)
    }

    fn farewell(&self) -> Result<Option<&'static str>> {
        Ruby::farewell(self)
    }

    fn collections(&mut self) -> Result<Vec<Collection>> {
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

    fn collect(&mut self, full: bool) -> Result<()> {
        let argument = if full { COLLECT_FULL } else { COLLECT_MINOR };
        self.ask(Request::Collect, argument, "collect its garbage")
    }

    fn leave(&mut self) -> Result<()> {
        Ruby::leave(self).map(drop)
    }
}
