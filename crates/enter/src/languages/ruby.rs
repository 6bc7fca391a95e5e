//! A Ruby that contains the agent: requests to it, their answers (`vm_entry`), and leaving it. Used by `ruby::counted`,
//! `ruby::vm_entry`, `ruby::collections` and others.
//!
//! Between two requests the guest is not traced. A thread of lancet changes the control page's heartbeat; when the
//! heartbeat stands still, the agent leaves by itself.
//!
//! What a Ruby is opened for stands in an [`Opening`], which the question fills: to evaluate texts, to be copied, to have
//! its collections timed, or to have its births counted.

mod collections;
mod counted;
mod entry;
mod evaluation;
mod guest;
mod snapshot;
mod vm_entry;

pub(crate) use entry::ENTRY;

use crate::claiming;
use crate::farewell;
use crate::opening::Opening;
use guest::RubyGuest;
use hooks::ScriptStart;
use inject::Timing;
use inject::heartbeat::Heartbeat;
use inject::image::Image;
use inject::resident::Resident;
use inject::residents::Residents;
use inject::seccomp;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::guest::{Status, command_line, reach};
use process::maps::Maps;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::panicking;
use std::time::{Duration, Instant};
use vm::Language;
use wire::control_page::padded;
use wire::{Config, ControlPage, Farewell, Request};

/// See [`Opening::claimed`].
type Claimed = fn(&GuestMemory, &Resident) -> Result<()>;

/// A part of the control page's page that holds no field.
const SCRATCH: u64 = size_of::<ControlPage>() as u64 - 64;

/// A Ruby that is open: its agent is in place, and requests to it are possible until it is left. Dropping this value leaves it.
#[derive(Debug)]
pub struct Ruby {
    status: Status,
    command: Vec<String>,
    memory: Arc<GuestMemory>,
    ruby: Arc<RubyGuest>,
    maps: Arc<Maps>,
    resident: Resident,
    config: Config,
    heartbeat: Heartbeat,
    /// The main thread, if we trace it between stops too.
    tracee: Option<Tracee>,
    timing: Timing,
    /// Number of garbage collections whose records were read; the agent's count is higher if there are new ones.
    collected: u64,
    /// A request was not answered in time: the next entry into the VM uses the most reliable way.
    insisting: bool,
    /// Whether it was asked to set its hook, and nobody has waited for that.
    comes: bool,
    /// How long the next request is waited for: less after one that was not answered.
    patience: Duration,
    /// When the last request was made.
    asked_at: Instant,
    open: bool,
}

impl Ruby {
    /// Opens a process, and waits until its agent has begun what it is opened for.
    ///
    /// # Errors
    /// It has no Ruby, or one that is not known; it cannot be opened; or it did not come to a safe point in time.
    pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Self> {
        Self::open_allowed(pid, image, opening, &[])
    }

    /// Like [`open`](Self::open), where the guest must be allowed to make these system calls besides those of every command.
    fn open_allowed(
        pid: i32,
        image: &Image,
        opening: Opening,
        calls: &[seccomp::Call],
    ) -> Result<Self> {
        let (status, memory, maps) = reach(pid)?;
        let found = RubyGuest::find(pid, &memory, &maps)?;
        let residents = Residents::read(&memory, &maps, image)?;
        // A killed `lancet calls` may have left hooks, which are lifted first.
        hooks::lift_left(&status, &memory, found.gadgets, &residents)?;
        let mut vm = Ruby::new(status, memory, found, maps, opening.config);
        vm.enter_for_the_first_time(residents, image, opening.claimed, calls)?;
        vm.await_answer("set its hook")?;
        Ok(vm)
    }

    fn new(
        status: Status,
        memory: Arc<GuestMemory>,
        found: RubyGuest,
        maps: Maps,
        wanted: Config,
    ) -> Self {
        let config = config(&found, wanted);
        Self::unclaimed(status, memory, Arc::new(found), maps, config)
    }

    /// One in which no agent is claimed yet.
    fn unclaimed(
        status: Status,
        memory: Arc<GuestMemory>,
        ruby: Arc<RubyGuest>,
        maps: Maps,
        config: Config,
    ) -> Self {
        Ruby {
            command: command_line(status.pid),
            status,
            memory,
            ruby,
            maps: Arc::new(maps),
            resident: Resident::nowhere(),
            config,
            heartbeat: Heartbeat::still(),
            tracee: None,
            timing: Timing::default(),
            collected: 0,
            insisting: false,
            comes: false,
            patience: vm_entry::PATIENCE,
            asked_at: Instant::now(),
            open: false,
        }
    }

    /// Maps the agent, or finds it, and makes it begin.
    fn enter_for_the_first_time(
        &mut self,
        mut residents: Residents,
        image: &Image,
        claimed: Claimed,
        calls: &[seccomp::Call],
    ) -> Result<()> {
        let pid = self.status.pid;
        let memory = self.memory.clone();
        // Any thread that has the VM's lock may do what is requested.
        seccomp::check_other_threads(pid, calls)?;
        self.enter_vm(|vm, remote| {
            if vm.status.seccomp != 0 {
                seccomp::check(pid, remote.tid(), calls)?;
            }
            let (resident, _) = residents.take(remote, &memory, image, true)?;
            if !vm.open {
                vm.take(resident, claimed)?;
            }
            Ok(())
        })
    }

    /// Claims the agent and makes it begin.
    fn take(&mut self, resident: Resident, claimed: Claimed) -> Result<()> {
        self.resident = resident;
        resident.claim(&self.memory, &self.config)?;
        self.heartbeat = Heartbeat::start(self.memory.clone(), &resident);
        self.open = true;
        claimed(&self.memory, &self.resident)?;
        self.request(Request::Watch, 0)
    }

    /// Opens a program that we started and that waits for us at the first line of its script: the hooks that brought it
    /// there are taken out, and the agent begins at that line.
    ///
    /// # Errors
    /// It has no Ruby, or its memory cannot be read or written; its main thread is given back.
    pub fn at_script(
        tracee: Tracee,
        start: ScriptStart,
        opening: Opening,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        let memory = start.memory().clone();
        let found = Status::read(tracee.pid()).and_then(|status| {
            let maps = Maps::of(status.pid)?;
            let found = RubyGuest::find(status.pid, &memory, &maps)?;
            Ok((status, maps, found))
        });
        let (status, maps, found) = match found {
            Ok(found) => found,
            // Dropping `start` takes its hooks out.
            Err(error) => return Err((tracee, error)),
        };
        let mut vm = Ruby::new(status, memory, found, maps, opening.config);
        match start.hand_over(|resident| vm.take(resident, opening.claimed)) {
            Ok(()) => {
                vm.tracee = Some(tracee);
                vm.comes = true;
                Ok(vm)
            }
            Err(error) => {
                vm.open = false;
                Err((tracee, error))
            }
        }
    }

    /// Takes the hook out and unmaps the agent's books; the value stays. Returns for how long the guest was stopped in all.
    ///
    /// # Errors
    /// The guest was not entered in time; its agent is quiet all the same.
    pub fn leave(&mut self) -> Result<Timing> {
        self.open = false;
        if self.farewell()?.is_none()
            && let Err(error) = self.ask(Request::Leave, 0, "leave")
        {
            self.go_quiet();
            return Err(error);
        }
        Ok(self.timing)
    }

    /// Used if the VM's lock cannot be had: the hook finds the control page closed at its next birth and takes itself out.
    /// The word that children check is cleared before the state, so that this process does not adopt itself.
    fn go_quiet(&self) {
        let follow = self.resident.header.config + offset_of!(Config, follow) as u64;
        // If the guest is gone, there is nothing to leave.
        let _ = self.memory.write(follow, &0u32.to_le_bytes());
        let _ =
            self.resident
                .write_control_page(&self.memory, offset_of!(ControlPage, state), 0u32);
    }

    /// Returns why the agent has left by itself, if it has.
    ///
    /// # Errors
    /// The control page cannot be read.
    pub fn farewell(&self) -> Result<Option<&'static str>> {
        let all = [Farewell::Alone, Farewell::Ractor, Farewell::Broken];
        farewell::among(&all, &self.resident, &self.memory)
    }

    /// Whether the guest still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        !self.status.is_gone()
    }

    /// The guest's process id, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }
}

impl Drop for Ruby {
    fn drop(&mut self) {
        if (self.open || panicking()) && self.is_alive() {
            // No caller is left to receive an error. A panic here may come while another one unwinds, and would then end
            // the command.
            let _ = catch_unwind(AssertUnwindSafe(|| self.leave()));
        }
    }
}

/// The agent's configuration for this Ruby.
fn config(found: &RubyGuest, wanted: Config) -> Config {
    Config {
        language: Language::Ruby.number(),
        functions: padded(found.functions.to_words()),
        facts: padded(found.facts.to_words()),
        ractor_class: found.ractor_class,
        vm: found.vm,
        ..claiming(wanted)
    }
}
