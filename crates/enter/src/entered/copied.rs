//! Makes a process copy itself wherever it stands ([`wire::snapshot`]). Used by `languages::python::snapshot`.
//!
//! No safe point is awaited. That suffices for readers that use only the copy's memory and tolerate data that was being changed. All
//! threads are stopped meanwhile, so that the copy is of one moment: the kernel copies page tables one after the other, and a running
//! thread would write to some pages before they are copied and to others afterwards.

use super::Entered;
use crate::copied::{Asking, Copied};
use hooks::Threads;
use process::error::{Error, Result};
use process::ptrace;
use std::mem::offset_of;
use wire::control_page::enter::COPY;
use wire::{ControlPage, Reply};

impl Entered {
    /// Makes the process copy itself wherever it stands, and notes the thread pointer of each thread at that moment.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn copy(&mut self) -> Result<Copied> {
        let asking = Asking {
            pid: self.pid(),
            at: self.resident.header.snapshot,
            memory: self.memory.clone(),
        };
        let mut pointers = Vec::new();
        self.has_copy.set(true);
        let copied = asking.copy(|| {
            self.stopped(Threads::All, |stop, remote| {
                let threads = stop.threads().filter_map(|tid| ptrace::registers(tid).ok());
                pointers = threads.map(|registers| registers.fs_base).collect();
                remote.call(self.resident.header.enter, COPY)
            })?;
            self.has_copied()
        })?;
        self.threads = pointers;
        Ok(copied)
    }

    /// The thread pointers of its threads when it was last copied.
    pub fn threads(&self) -> &[u64] {
        &self.threads
    }

    /// Fails if the agent has reported that it made no copy.
    pub(crate) fn has_copied(&self) -> Result<()> {
        let reply = offset_of!(ControlPage, reply);
        match self.resident.control_page_u32(&self.memory, reply)? {
            done if done == Reply::Done as u32 => Ok(()),
            _ => Err(Error::NoCopy {
                pid: self.pid(),
                reason: "its agent has no memory, or waits for too many copies that do not end"
                    .into(),
            }),
        }
    }
}
