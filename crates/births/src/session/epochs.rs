//! Sets the epoch of births in an open guest, and the intervals by which a census groups epochs. The guest is not stopped.
//! Used by `session`.

use super::{Session, room};
use crate::intervals::Intervals;
use crate::objects::{self, Numbered};
use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::time::Duration;
use wire::Ledger;
use wire::accounts::OPEN;
use wire::slots::epoch_bits;

impl Session {
    /// Makes births from now on belong to the latest of these intervals.
    pub fn mark(&self, intervals: &Intervals) -> Result<()> {
        mark(
            self.vm.memory(),
            self.vm.resident(),
            intervals,
            self.has_accounts,
        )
    }

    /// Writes to the agent to which interval each epoch belongs.
    pub(crate) fn set_intervals(&self, of_epochs: &[u8]) -> Result<()> {
        set_intervals(self.vm.memory(), self.vm.resident(), of_epochs)
    }

    /// Makes births from now on belong to this epoch, whose interval the agent knows already.
    pub(crate) fn begin_epoch(&self, epoch: u32) -> Result<()> {
        begin_epoch(
            self.vm.memory(),
            self.vm.resident(),
            epoch,
            self.has_accounts,
        )
    }

    /// Calls `each` for every object that the last census can have counted, with its number; see [`crate::objects`]. Returns whether the
    /// whole heap was walked.
    pub(crate) fn each_object(&self, each: &mut dyn FnMut(Numbered)) -> Result<bool> {
        objects::each(
            self.vm.memory(),
            &*self.vm.objects()?,
            self.vm.resident().header.ledger,
            each,
        )
    }
}

/// Makes all births belong to one interval, and says how much memory the books may take. An agent that is used again has the intervals and
/// the bound of the last command.
pub(super) fn begin(memory: &GuestMemory, resident: &Resident) -> Result<()> {
    room::begin(memory, resident)?;
    mark(memory, resident, &Intervals::new(Duration::MAX), false)
}

/// Makes births from now on belong to the latest of these intervals.
fn mark(
    memory: &GuestMemory,
    resident: &Resident,
    intervals: &Intervals,
    has_accounts: bool,
) -> Result<()> {
    set_intervals(memory, resident, intervals.of_epochs())?;
    begin_epoch(memory, resident, intervals.epoch(), has_accounts)
}

fn set_intervals(memory: &GuestMemory, resident: &Resident, of_epochs: &[u8]) -> Result<()> {
    let at = resident.header.ledger + offset_of!(Ledger, intervals) as u64;
    memory.write(at, of_epochs)
}

fn begin_epoch(
    memory: &GuestMemory,
    resident: &Resident,
    epoch: u32,
    has_accounts: bool,
) -> Result<()> {
    let at = resident.header.ledger + offset_of!(Ledger, epoch) as u64;
    let open = if has_accounts { OPEN } else { 0 };
    let epoch = u64::from(epoch_bits(epoch)) | open;
    memory.write(at, &epoch.to_le_bytes())
}
