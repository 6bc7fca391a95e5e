//! Makes an open guest copy itself; its heap is read from the copy while the guest goes on ([`wire::snapshot`]). Used
//! by `entry`.

use super::Ruby;
use crate::copied::{Asking, Copied};
use crate::copyable::Copyable;
use crate::counted::Counted;
use crate::opening::Opening;
use inject::Timing;
use inject::image::Image;
use inject::seccomp::OF_SNAPSHOT;
use languages::snapshot::Told;
use process::error::{Error, Result};
use std::mem::offset_of;
use std::ops::Range;
use vm::Language;
use wire::{Request, Snapshot};

/// Opens a process that can then be copied, whatever it is opened for besides.
///
/// # Errors
/// The process cannot be opened; its seccomp filter does not allow a copy; its VM does not say which object refers to which;
/// or it runs several Ractors, which this VM's lock does not stop.
pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Box<dyn Copyable>> {
    let vm = Ruby::open_allowed(pid, image, opening, &OF_SNAPSHOT)?;
    let functions = &vm.ruby.functions;
    if functions.rb_objspace_reachable_objects_from == 0
        || functions.rb_objspace_reachable_objects_from_root == 0
    {
        return Err(Error::UnreadableVm {
            pid,
            language: Language::Ruby,
            reason: "its Ruby is linked in without the symbol rb_objspace_reachable_objects_from, by which it says what refers to what".into(),
        });
    }
    if vm.ruby.has_several_ractors(&vm.memory) {
        return Err(Error::NoCopy {
            pid,
            reason: "it runs several Ractors, and there is no moment at which we know that all of them stand at a safe point"
                .into(),
        });
    }
    Ok(Box::new(vm))
}

impl Copyable for Ruby {
    fn language(&self) -> Language {
        Language::Ruby
    }

    fn pid(&self) -> i32 {
        Ruby::pid(self)
    }

    fn heap(&self) -> &dyn Told {
        &self.ruby.facts
    }

    fn data(&self) -> &[Range<u64>] {
        &self.ruby.data
    }

    fn ledger(&self) -> u64 {
        self.resident.header.ledger
    }

    fn look(&mut self) -> Result<()> {
        if self.awaits_last_count()? {
            // `mem` would count it from outside first. Here nobody asks for that count, and the program need not wait for it.
            self.let_go()?;
        }
        match self.farewell()? {
            Some(why) => Err(Error::Left {
                pid: self.status.pid,
                why,
            }),
            None => Ok(()),
        }
    }

    fn copy(&mut self) -> Result<Copied> {
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

    fn leave(mut self: Box<Self>) -> Result<Timing> {
        Ruby::leave(&mut self)
    }
}

impl Ruby {
    /// Enters the VM, and tells the agent which part of the stack of the thread that makes the remote call belongs to the
    /// program.
    fn enter_for_snapshot(&mut self) -> Result<()> {
        let at = self.resident.header.snapshot + offset_of!(Snapshot, stack) as u64;
        self.enter_vm(|vm, remote| {
            let stack = remote.registers().rsp;
            vm.memory.write(at, &stack.to_le_bytes())
        })
    }
}
