//! Finds the few instructions that remote calls need in a guest's own code.

use crate::remote_call::Gadgets;
use process::error::{Error, Result};
use process::gadgets;
use process::maps::Maps;
use process::memory::GuestMemory;

impl Gadgets {
    /// Finds the gadgets in the executable mappings of a process.
    ///
    /// # Errors
    /// [`Error::NothingToBorrow`] if nothing that is mapped holds them.
    pub fn find(pid: i32, memory: &GuestMemory, maps: &Maps) -> Result<Self> {
        let find = |bytes| gadgets::find(memory, maps, bytes).next();
        match (find(gadgets::SYSCALL_RETURN), find(gadgets::RESTORE_RT)) {
            (Some(syscall), Some(restore)) => Ok(Gadgets { syscall, restore }),
            _ => Err(Error::NothingToBorrow {
                pid,
                reason: "no libc of it holds `syscall; ret` and the return from a signal handler"
                    .into(),
            }),
        }
    }
}
