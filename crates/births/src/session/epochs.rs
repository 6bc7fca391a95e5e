//! Sets the epoch of births in an open guest, and the intervals by which a census groups epochs. The guest is not stopped.

use super::Session;
use crate::intervals::Intervals;
use crate::objects::{self, Object};
use process::error::Result;
use std::mem::offset_of;
use wire::Ledger;
use wire::accounts::OPEN;
use wire::slots::epoch_bits;

impl Session {
    /// Makes births from now on belong to the latest of these intervals.
    pub fn mark(&self, intervals: &Intervals) -> Result<()> {
        self.set_intervals(intervals.of_epochs())?;
        self.begin_epoch(intervals.epoch())
    }

    /// Writes to the agent to which interval each epoch belongs.
    pub(crate) fn set_intervals(&self, of_epochs: &[u8]) -> Result<()> {
        let at = self.resident.header.ledger + offset_of!(Ledger, intervals) as u64;
        self.memory.write(at, of_epochs)
    }

    /// Makes births from now on belong to this epoch, whose interval the agent knows already.
    pub(crate) fn begin_epoch(&self, epoch: u32) -> Result<()> {
        let at = self.resident.header.ledger + offset_of!(Ledger, epoch) as u64;
        let open = if self.has_accounts { OPEN } else { 0 };
        let epoch = u64::from(epoch_bits(epoch)) | open;
        self.memory.write(at, &epoch.to_le_bytes())
    }

    /// Calls `each` for every object that the last census can have counted, with its number; see [`crate::objects`]. Returns whether the
    /// whole heap was walked.
    pub(crate) fn each_object(&self, each: &mut dyn FnMut(Object)) -> Result<bool> {
        objects::each(
            &self.memory,
            &self.ruby.facts,
            self.resident.header.ledger,
            each,
        )
    }
}
