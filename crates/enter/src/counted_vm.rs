//! A process whose births are counted by an agent that a VM is asked through: how it is asked, and how the agent leaves. What differs from VM to
//! VM is in [`AskedVm`]. Used by `languages::php::counted` and `languages::python::counted`.
//!
//! If it cannot be asked to leave, the agent is made quiet: its functions then pass everything through, and take themselves out when the VM next
//! calls one.

use crate::counted::{Awaited, Counted};
use crate::entered::Entered;
use crate::farewell;
use inject::Timing;
use inject::resident::Resident;
use inject::tracee::Tracee;
use languages::objects::Objects;
use process::error::{Error, Result};
use process::guest::command_line;
use process::memory::GuestMemory;
use std::fmt::Debug;
use std::mem::offset_of;
use vm::Language;
use wire::control_page::CENSUS_COLLECT;
use wire::{ControlPage, Farewell, Reply, Request};

/// A VM that contains the agent and is asked through it.
pub trait AskedVm: Debug + 'static {
    /// Its language.
    const LANGUAGE: Language;
    /// Why a child that was forked is not opened.
    const FORKED: &'static str;
    /// How a process came to its end whose agent has not counted.
    const ENDED: &'static str;

    /// The process with the agent in it.
    fn entered(&self) -> &Entered;

    /// The same, to leave it.
    fn entered_mut(&mut self) -> &mut Entered;

    /// Its main thread, if we trace it between stops too.
    fn tracee(&mut self) -> &mut Option<Tracee>;

    /// Its version.
    fn version(&self) -> String;

    /// Makes the agent carry a request out.
    ///
    /// # Errors
    /// It was not entered in time; its agent is quiet then.
    fn ask(&mut self, request: Request, argument: u64) -> Result<()>;

    /// Waits until the request that was made before is carried out.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    fn await_request(&mut self) -> Result<()>;

    /// Why the agent did not do what it was asked, where that is not said by its reply.
    fn why_not_done(request: Request) -> &'static str;

    /// What a census is asked with.
    fn census_argument(&mut self, collect: bool) -> u64 {
        if collect { CENSUS_COLLECT } else { 0 }
    }

    /// Takes back what was done to the VM for a count, before the agent leaves.
    fn take_back(&mut self) {}

    /// Whether the VM has ended, so that there is nothing left which the agent's functions could be taken out of.
    fn has_ended(&self) -> bool {
        false
    }

    /// See [`Counted::prompt`].
    fn prompt(&mut self) -> bool {
        false
    }

    /// See [`Counted::awaits_collection`].
    fn awaits_collection(&mut self) -> Awaited {
        Awaited::Nothing
    }

    /// See [`Counted::objects`].
    ///
    /// # Errors
    /// They cannot be read so.
    fn objects(&self) -> Result<Box<dyn Objects + '_>>;
}

/// A VM that is open: its agent counts, and requests to it are possible until it is left. Dropping this value leaves it.
#[derive(Debug)]
struct CountedVm<V: AskedVm> {
    vm: V,
    command: Vec<String>,
    open: bool,
    /// Whether it was asked to begin, and nobody has waited for that.
    comes: bool,
}

/// Has the agent in a VM begin, and waits until it counts.
///
/// # Errors
/// Its births cannot be counted, or it was not entered in time.
pub fn begun<V: AskedVm>(vm: V) -> Result<Box<dyn Counted>> {
    let mut counted = CountedVm::of(vm);
    counted.ask(Request::Watch, 0, "count its births")?;
    Ok(Box::new(counted))
}

/// A VM of a program that we started, whose agent was asked to begin where its script does: nobody has waited for that yet.
pub fn begins<V: AskedVm>(mut vm: V, tracee: Tracee) -> Box<dyn Counted> {
    *vm.tracee() = Some(tracee);
    let mut counted = CountedVm::of(vm);
    counted.comes = true;
    Box::new(counted)
}

impl<V: AskedVm> CountedVm<V> {
    fn of(vm: V) -> Self {
        CountedVm {
            command: command_line(vm.entered().pid()),
            vm,
            open: true,
            comes: false,
        }
    }

    /// Makes the agent do something, and fails if it did not.
    fn ask(&mut self, request: Request, argument: u64, what: &'static str) -> Result<()> {
        let pid = self.pid();
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        if std::mem::take(&mut self.comes) && request != Request::Leave {
            self.vm.await_request()?;
        }
        self.vm.ask(request, argument)?;
        let reply = offset_of!(ControlPage, reply);
        let reply = self.resident().control_page_u32(self.memory(), reply)?;
        if reply == Reply::Done as u32 {
            return Ok(());
        }
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        let reason = if reply == Reply::NoMemory as u32 {
            "it could not map memory for its books, which take a quarter of what its limits and the machine leave it"
        } else {
            V::why_not_done(request)
        };
        Err(Error::Refused { pid, what, reason })
    }
}

impl<V: AskedVm> Counted for CountedVm<V> {
    fn language(&self) -> Language {
        V::LANGUAGE
    }

    fn prompt(&mut self) -> bool {
        self.vm.prompt()
    }

    fn awaits_collection(&mut self) -> Awaited {
        self.vm.awaits_collection()
    }

    fn census(&mut self, collect: bool) -> Result<()> {
        let argument = self.vm.census_argument(collect);
        self.ask(Request::Census, argument, "count the living")
    }

    fn leave(&mut self) -> Result<Timing> {
        self.open = false;
        self.vm.take_back();
        let asked = match self.farewell()? {
            // An agent that was made quiet, because it did not answer, does not answer this either.
            None if self.vm.entered().is_quiet() || self.vm.has_ended() => Ok(()),
            None => self.ask(Request::Leave, 0, "take the agent's functions out"),
            Some(_) => Ok(()),
        };
        let left = self.vm.entered_mut().leave();
        asked.and(left)
    }

    fn give_up(&mut self) {
        self.open = false;
        self.vm.entered_mut().give_up();
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn farewell(&self) -> Result<Option<&'static str>> {
        let all = [Farewell::Alone, Farewell::Broken, Farewell::Replaced];
        farewell::among(&all, self.resident(), self.memory())
    }

    fn is_alive(&self) -> bool {
        !self.vm.entered().status.is_gone()
    }

    fn pid(&self) -> i32 {
        self.vm.entered().pid()
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn version(&self) -> String {
        self.vm.version()
    }

    fn memory(&self) -> &GuestMemory {
        &self.vm.entered().memory
    }

    fn resident(&self) -> &Resident {
        &self.vm.entered().resident
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        self.vm.tracee()
    }

    fn timing(&self) -> Timing {
        self.vm.entered().timing()
    }

    fn adopt(&self, pid: i32) -> Result<Box<dyn Counted>> {
        Err(Error::NotAGuest {
            pid,
            reason: V::FORKED,
        })
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        self.vm.objects()
    }

    fn objects_at_end(&self) -> Result<Box<dyn Objects + '_>> {
        Err(Error::Refused {
            pid: self.pid(),
            what: "count what it held at its end",
            reason: V::ENDED,
        })
    }
}

impl<V: AskedVm> Drop for CountedVm<V> {
    fn drop(&mut self) {
        if self.open && self.is_alive() {
            // The error cannot be returned.
            let _ = self.leave();
        }
    }
}
