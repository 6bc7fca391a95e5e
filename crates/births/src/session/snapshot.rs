//! Makes an open guest copy itself; its heap is read from the copy while the guest goes on ([`wire::snapshot`]).

use super::{Options, Session};
use crate::lines::Lines;
use inject::copied::{Asking, Copied};
use inject::image::Image;
use inject::seccomp;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::{Purpose, Request, Snapshot};

impl Session {
    /// Opens a process to make a snapshot of it. With `births` these are counted from now on; otherwise nothing is watched.
    ///
    /// # Errors
    /// The process cannot be opened; its seccomp filter does not allow a copy; its VM does not say which object refers to which;
    /// or it runs several Ractors, which this VM's lock does not stop.
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

    /// Makes the guest copy itself.
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
            self.request(Request::Snapshot, 0)?;
            self.enter_for_snapshot()?;
            self.await_answer("make a copy of the process")
        })
    }

    /// Enters the VM, and tells the agent which part of the stack of the thread that makes the remote call belongs to the
    /// program.
    fn enter_for_snapshot(&mut self) -> Result<()> {
        let at = self.resident.header.snapshot + offset_of!(Snapshot, stack) as u64;
        self.enter_vm(|session, remote| {
            let stack = remote.registers().rsp;
            session.memory.write(at, &stack.to_le_bytes())
        })
    }

    /// Returns the lines at which objects of a copy of this guest were made, if births are counted.
    ///
    /// # Errors
    /// The agent's books cannot be read in the copy.
    pub fn lines_in<'a>(&self, copy: &'a GuestMemory) -> Result<Option<Lines<'a>>> {
        match self.config.purpose == Purpose::Births as u64 {
            true => Lines::of(copy, self.resident.header.ledger).map(Some),
            false => Ok(None),
        }
    }
}
