//! Asks a guest for a copy of itself ([`wire::snapshot`]): the part that is the same for every VM, and for a process that is asked wherever
//! it stands. Used by `entered::copied`, `languages::python::snapshot` and others here, and by crate `dump`.

use inject::records::ReadRecords;
use process::control_group::{room_of, tasks_left};
use process::error::{Error, Result};
use process::guest;
use process::memory::GuestMemory;
use process::rss::resident_now;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::Snapshot;
use wire::snapshot::Prepared;

/// See [`Asking::preparing`]; the second where a memory limit leaves less room than the program has filled. A remote call that sleeps for longer
/// than 2 s is given up.
const PREPARING: Duration = Duration::from_millis(20);
const PREPARING_WITHIN_LIMIT: Duration = Duration::from_secs(1);

/// Processes that a control group must have left for a copy to be made: one for that, and some that the program may want meanwhile.
const FEWEST: u64 = 4;

/// A copy of a guest, its child. Nothing in it has been checked: it is the guest's word.
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

/// Why a process that is copied might meet its memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The limit leaves fewer bytes than may be needed.
    Room {
        /// Bytes that it leaves.
        left: u64,
        /// Bytes that are needed where the process writes to all of its memory: for the copies of its pages and, where lancet is
        /// under the same limit, for the snapshot.
        most: u64,
        /// The kernel ends the process together with its copy.
        ends_together: bool,
    },
    /// Whether it has a limit cannot be seen.
    Hidden,
}

/// Whether there is too little room for a copy of a process when it has so many bytes in memory, which may be more than it has now: not every page of it
/// could be copied. Where lancet is under the same limit, it takes about as much as the heap has, for a snapshot and its analysis
/// (docs/heap-how.md).
pub fn lack_of_room(pid: i32, resident: u64) -> Option<Lack> {
    let mut room = room_of(pid);
    let growth = resident.saturating_sub(self::resident(pid));
    for left in [&mut room.left, &mut room.shared].into_iter().flatten() {
        *left = left.saturating_sub(growth);
    }
    let limits = [
        (room.left, resident),
        (room.shared, resident.saturating_mul(2)),
    ];
    let mut lacking = limits.into_iter().filter_map(|(left, most)| {
        let left = left.filter(|left| *left < most)?;
        Some(Lack::Room {
            left,
            most,
            ends_together: room.ends_together,
        })
    });
    lacking.next().or(room.is_hidden.then_some(Lack::Hidden))
}

/// Bytes that a process has in memory; 0 if that cannot be read.
pub fn resident(pid: i32) -> u64 {
    resident_now(pid).unwrap_or(0)
}

/// A guest that can be asked for a copy of itself.
#[derive(Debug)]
pub(crate) struct Asking {
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
        if let Some(left @ ..FEWEST) = tasks_left(self.pid) {
            return Err(Error::NoCopy {
                pid: self.pid,
                reason: format!(
                    "its control group (pids.max) may have {left} more processes and threads, and the program could not make its own while its copy lives"
                ),
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
        match lack_of_room(self.pid, resident(self.pid)) {
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
