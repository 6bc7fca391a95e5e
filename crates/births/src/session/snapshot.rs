//! Having an open guest make a copy of itself, from which its heap is read while it goes on ([`wire::snapshot`]).

use super::{Options, Session};
use crate::lines::Lines;
use inject::image::Image;
use inject::records::ReadRecords;
use inject::seccomp;
use process::control_group::memory_left;
use process::error::{Error, Result};
use process::guest;
use process::memory::GuestMemory;
use process::rss::Resident;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::{Purpose, Request, Snapshot};

/// See [`Asking::preparing`]; the second where a memory limit leaves less room than the program has filled.
const PREPARING: Duration = Duration::from_millis(20);
const PREPARING_WITHIN_LIMIT: Duration = Duration::from_secs(2);

/// A copy of a guest, its child. Nothing in it has been checked: it is the guest's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The child's id in the guest's PID namespace.
    pub id: u64,
    /// Address of the [`Snapshot`], in the guest and in the child.
    pub at: u64,
    /// How long the guest's VM stood still.
    pub pause: Duration,
}

/// Bytes that the memory limit of a process leaves, and those that it has in memory, where the first are fewer: not every page of it
/// could be copied.
pub fn lacks_room(pid: i32) -> Option<(u64, u64)> {
    let resident = Resident::of(pid).map_or(0, |resident| resident.memory);
    let left = memory_left(pid).filter(|left| *left < resident)?;
    Some((left, resident))
}

impl Session {
    /// Opens a process to make a snapshot of it. With `births` those are counted from now on; else nothing is watched.
    ///
    /// # Errors
    /// It cannot be opened; its seccomp filter does not allow a copy; its VM does not say what refers to what; or it runs several
    /// Ractors, which this VM's lock does not stop.
    pub fn open_for_snapshot(pid: i32, image: &Image, births: bool) -> Result<Self> {
        let purpose = if births {
            Purpose::Births
        } else {
            Purpose::Snapshot
        };
        let calls = &seccomp::OF_SNAPSHOT;
        let session = Self::open_for(pid, image, Options::NONE, purpose, calls)?;
        let functions = &session.ruby.functions;
        if functions.rb_objspace_reachable_objects_from == 0
            || functions.rb_objspace_reachable_objects_from_root == 0
        {
            return Err(Error::NotARuby {
                pid,
                reason: "its Ruby is linked in without the symbol rb_objspace_reachable_objects_from, by which it says what refers to what".into(),
            });
        }
        if session.ruby.has_several_ractors(&session.memory) {
            return Err(Error::NoCopy {
                pid,
                reason: "it runs several Ractors, and there is no moment at which we know that all of them stand at a safe point"
                    .into(),
            });
        }
        Ok(session)
    }

    /// Has the guest make a copy of itself.
    ///
    /// # Errors
    /// The kernel refused it, or the guest did not come to a safe point.
    pub fn copy(&mut self) -> Result<Copied> {
        let asking = Asking {
            pid: self.status.pid,
            at: self.resident.header.snapshot,
            memory: self.memory.clone(),
        };
        asking.copy(|| {
            self.resident.request(&self.memory, Request::Snapshot, 0)?;
            self.enter_for_snapshot()?;
            self.await_answer("make a copy of the process")
        })
    }

    /// Enters the VM, and tells the agent what of the stack of the thread that makes the remote call is the program's.
    fn enter_for_snapshot(&mut self) -> Result<()> {
        let at = self.resident.header.snapshot + offset_of!(Snapshot, stack) as u64;
        self.enter_vm(|session, remote| {
            let stack = remote.registers().rsp;
            session.memory.write(at, &stack.to_le_bytes())
        })
    }

    /// The lines at which objects of a copy of this guest were made, if births are counted.
    ///
    /// # Errors
    /// The agent's books cannot be read in the copy.
    pub fn lines_in<'a>(&self, copy: &'a GuestMemory) -> Result<Option<Lines<'a>>> {
        match self.config.purpose == Purpose::Births as u64 {
            true => Lines::of(copy, self.resident.header.ledger).map(Some),
            false => Ok(None),
        }
    }

    /// How the last copy ended, as `wait4` says it, once the guest has waited for it.
    pub fn copy_ended(&self) -> Option<i32> {
        let at = self.resident.header.snapshot + offset_of!(Snapshot, status) as u64;
        let status = self.memory.word(at).ok()?;
        (status != u64::MAX).then_some(status as u32 as i32)
    }
}

/// A guest that is asked for a copy of itself: what is alike for every VM.
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
    /// Has `ask` request the copy and wait for the answer; returns what the agent says of the copy.
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
        // A word of an earlier snapshot would be taken for one of this.
        write(offset_of!(Snapshot, errno), 0)?;
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
        })
    }

    /// How long the program waits at most until its copy has asked to be ended before it. The copy does that first of all, but on a busy
    /// machine it may have to wait for a processor; and what the program writes until then counts against its memory limit.
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
