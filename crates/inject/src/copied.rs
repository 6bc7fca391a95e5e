//! Asks a guest for a copy of itself ([`wire::snapshot`]): the part that is the same for every VM, and for a process that is asked wherever
//! it stands.

use crate::records::ReadRecords;
use process::control_group::memory_left;
use process::error::{Error, Result};
use process::guest;
use process::memory::GuestMemory;
use process::rss::Resident;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::Snapshot;
use wire::snapshot::Prepared;

/// See [`Asking::preparing`]; the second where a memory limit leaves less room than the program has filled. A remote call that sleeps for longer
/// than 2 s is given up.
const PREPARING: Duration = Duration::from_millis(20);
const PREPARING_WITHIN_LIMIT: Duration = Duration::from_secs(1);

/// A copy of a guest, its child process. The values come from the guest and have not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The child's id in the guest's PID namespace.
    pub id: u64,
    /// Address of the [`Snapshot`], in the guest and in the child.
    pub at: u64,
    /// How long the guest's VM stood still.
    pub pause: Duration,
    /// A memory limit ends it before the guest, as the guest was told.
    pub ends_first: bool,
}

/// Returns how many bytes the memory limit of a process leaves and how many it has in memory, if the first are fewer: then not every page
/// of it could be copied.
pub fn lacks_room(pid: i32) -> Option<(u64, u64)> {
    let resident = Resident::of(pid).map_or(0, |resident| resident.memory);
    let left = memory_left(pid).filter(|left| *left < resident)?;
    Some((left, resident))
}

/// A guest that can be asked for a copy of itself.
#[derive(Debug)]
pub struct Asking {
    /// The guest's process id, in the PID namespace of lancet.
    pub pid: i32,
    /// Address of the agent's [`Snapshot`] in it.
    pub at: u64,
    /// The memory of the guest.
    pub memory: Arc<GuestMemory>,
}

impl Asking {
    /// Runs `ask`, which requests the copy and waits for the answer, and returns what the agent says of the copy.
    ///
    /// # Errors
    /// The kernel refused it, or what `ask` returns.
    pub fn copy(&self, ask: impl FnOnce() -> Result<()>) -> Result<Copied> {
        let word = |field: usize| self.memory.record::<u64>(self.at + field as u64);
        let write = |field: usize, value: u64| {
            let at = self.at + field as u64;
            self.memory.write(at, &value.to_le_bytes())
        };
        if guest::has_children_elsewhere(self.pid) {
            return Err(Error::NoCopy {
                pid: self.pid,
                reason: "its children are made in another PID namespace than its own, whose first process a copy may be: with that the namespace ends"
                    .into(),
            });
        }
        // Words of an earlier snapshot would be taken for those of this.
        write(offset_of!(Snapshot, errno), 0)?;
        write(offset_of!(Snapshot, prepared), Prepared::No as u64)?;
        let prepare = self.preparing().as_nanos() as u64;
        write(offset_of!(Snapshot, prepare), prepare)?;
        if let Err(error) = ask() {
            return match word(offset_of!(Snapshot, errno)) {
                Ok(errno @ 1..) => Err(self.no_copy(errno)),
                _ => Err(error),
            };
        }
        Ok(Copied {
            id: word(offset_of!(Snapshot, child))?,
            at: self.at,
            pause: Duration::from_nanos(word(offset_of!(Snapshot, pause))?),
            ends_first: word(offset_of!(Snapshot, prepared))? == Prepared::EndsFirst as u64,
        })
    }

    /// How long the program waits at most until its copy has asked to be ended before it and has closed its descriptors. The copy does that first of
    /// all, but on a busy machine it may have to wait for a processor, and a file system may have it wait for a descriptor that it closes;
    /// and what the program writes until then counts against its memory limit.
    fn preparing(&self) -> Duration {
        match lacks_room(self.pid) {
            Some(_) => PREPARING_WITHIN_LIMIT,
            None => PREPARING,
        }
    }

    fn no_copy(&self, errno: u64) -> Error {
        let errno = i32::try_from(errno).unwrap_or(0);
        let why = match errno {
            libc::EAGAIN => {
                "its user (RLIMIT_NPROC) or its control group (pids.max) may have no further process"
            }
            libc::ENOMEM => {
                "the kernel has no memory for it, or promises none (vm.overcommit_memory=2)"
            }
            libc::EPERM | libc::EACCES | libc::ENOSYS => {
                "a seccomp filter or a security module forbids it"
            }
            _ => "the kernel refused",
        };
        let error = std::io::Error::from_raw_os_error(errno);
        Error::NoCopy {
            pid: self.pid,
            reason: format!("{why} (clone: {error})"),
        }
    }
}
