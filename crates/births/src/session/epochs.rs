//! Births told apart by when they are: the number that they carry, and what a census makes of it. The guest is not stopped.

use super::Session;
use crate::intervals::Intervals;
use crate::objects::{self, Object};
use process::error::Result;
use std::mem::offset_of;
use wire::Ledger;
use wire::accounts::OPEN;
use wire::slots::epoch_bits;

impl Session {
    /// Has births from now on be of the latest of these intervals.
    pub fn mark(&self, intervals: &Intervals) -> Result<()> {
        self.set_intervals(intervals.of_epochs())?;
        self.begin_epoch(intervals.epoch())
    }

    /// Tells the agent to which interval each epoch belongs.
    pub(crate) fn set_intervals(&self, of_epochs: &[u8]) -> Result<()> {
        let at = self.resident.header.ledger + offset_of!(Ledger, intervals) as u64;
        self.memory.write(at, of_epochs)
    }

    /// Has births from now on be of this epoch, of which the agent knows the interval.
    pub(crate) fn begin_epoch(&self, epoch: u32) -> Result<()> {
        let at = self.resident.header.ledger + offset_of!(Ledger, epoch) as u64;
        let open = if self.has_accounts { OPEN } else { 0 };
        let epoch = u64::from(epoch_bits(epoch)) | open;
        self.memory.write(at, &epoch.to_le_bytes())
    }

    /// Calls `each` for every object that the last census can have counted, with its number; see [`crate::objects`]. Returns whether the heap
    /// was walked to its end.
    pub(crate) fn each_object(&self, each: &mut dyn FnMut(Object)) -> Result<bool> {
        objects::each(
            &self.memory,
            &self.ruby.facts,
            self.resident.header.ledger,
            each,
        )
    }
}
