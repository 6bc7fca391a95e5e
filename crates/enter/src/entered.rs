//! A process that contains an agent whose functions are called on its main thread: what all VMs share that are entered in this way.
//! Used by `languages::php`, `languages::python` and others here, and by crate `dump`.
//!
//! ```text
//!   open ────────► agent mapped, or found; claimed; heartbeat begun
//!   stopped ─────► threads stand still, the main one makes remote calls
//!   leave, drop ─► it waits for the copy it has made, the agent is quiet
//! ```

mod copied;

use crate::claiming;
use hooks::{ScriptStart, Standstill, Threads, lift_left};
use inject::heartbeat::Heartbeat;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use inject::residents::Residents;
use inject::tracee::Tracee;
use inject::{Image, Timing};
use process::error::{Error, Result};
use process::functions::Functions;
use process::guest::{self, Status};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Arc;
use wire::control_page::enter::REAP;
use wire::{Config, ControlPage, State};

/// A process that contains our agent, from [`Reached::enter`] until it is left; dropping this value leaves it. If lancet is killed, the
/// agent becomes quiet by itself when the heartbeat has been missing for five seconds.
#[derive(Debug)]
pub struct Entered {
    pub(crate) status: Status,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) functions: Functions,
    pub(crate) resident: Resident,
    gadgets: Gadgets,
    /// Dropping this value ends the heartbeat.
    _heartbeat: Heartbeat,
    open: Cell<bool>,
    timing: Cell<Timing>,
    /// Whether the process has made a copy of itself that it has not reaped.
    pub(crate) has_copy: Cell<bool>,
    /// See [`Entered::threads`].
    threads: Vec<u64>,
    /// How its main thread is held between stops.
    ties: Ties,
}

/// A process that was examined and not yet entered.
#[derive(Debug)]
pub struct Reached {
    status: Status,
    memory: Arc<GuestMemory>,
    maps: Maps,
    /// The functions that its modules export.
    pub functions: Functions,
}

/// Delivers a signal that came for a traced thread; returns an error if the thread stands at an event that we must see first.
pub(crate) fn poll(tracee: &mut Tracee) -> Result<()> {
    match tracee.poll()? {
        None => Ok(()),
        Some(_) => Err(Error::AtEvent { tid: tracee.pid() }),
    }
}

impl Reached {
    /// Examines a program that we started and that waits for us where its script begins.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn at_script(pid: i32, start: &ScriptStart) -> Result<Self> {
        Self::of((Status::read(pid)?, start.memory().clone(), Maps::of(pid)?))
    }

    /// Takes the agent over that has brought a program to its script, whose main thread stays traced. `take` is called when the agent is
    /// claimed, before the program goes on.
    ///
    /// # Errors
    /// Its threads could not be stopped, or its memory not be written.
    pub(crate) fn take_over(
        self,
        start: ScriptStart,
        wanted: Config,
        mut take: impl FnMut(&GuestMemory, &Resident) -> Result<()>,
    ) -> Result<Entered> {
        let Reached {
            status,
            memory,
            maps,
            functions,
        } = self;
        let gadgets = Gadgets::find(status.pid, &memory, &maps)?;
        let config = claiming(wanted);
        let mut resident = Resident::nowhere();
        start.hand_over(|found| {
            resident = found;
            found.claim(&memory, &config)?;
            take(&memory, &found)
        })?;
        let entered = Entered::unclaimed((status, memory, functions), gadgets, Ties::Kept);
        Ok(entered.claimed(resident))
    }

    /// Reads what must be known of a process before the agent is put into it, without stopping it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(pid: i32) -> Result<Self> {
        Self::of(guest::reach(pid)?)
    }

    fn of((status, memory, maps): (Status, Arc<GuestMemory>, Maps)) -> Result<Self> {
        let functions = Functions::read(status.pid, &memory, &maps)?;
        Ok(Reached {
            status,
            memory,
            maps,
            functions,
        })
    }

    /// The memory of the process, read and written through `/proc/PID/mem`.
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// Puts the agent into the process, or takes over one that an earlier attach has left there.
    ///
    /// # Errors
    /// The process cannot be opened, or another user's agent is in it.
    pub fn enter(self, image: &Image) -> Result<Entered> {
        self.enter_for(image, Config::NONE, false)
    }

    /// The same with what the agent is configured for, and with an agent that a killed command has left counting, if the caller can
    /// `unhook` it.
    ///
    /// # Errors
    /// As of [`enter`](Self::enter).
    pub(crate) fn enter_for(self, image: &Image, wanted: Config, unhook: bool) -> Result<Entered> {
        let Reached {
            status,
            memory,
            maps,
            functions,
        } = self;
        let mut residents = Residents::read(&memory, &maps, image)?;
        let gadgets = Gadgets::find(status.pid, &memory, &maps)?;
        // Removes hooks left by a `calls` that was killed.
        lift_left(&status, &memory, gadgets, &residents)?;
        let found = (status, memory.clone(), functions);
        let entered = Entered::unclaimed(found, gadgets, Ties::None);
        let config = claiming(wanted);
        let claimed = Cell::new(None);
        let entering = entered.stopped(Threads::Main, |_, remote| {
            let (resident, _) = residents.take(remote, &memory, image, unhook)?;
            // In the same stop in which the agent was seen to be unclaimed, so that no other command can claim it in between.
            resident.claim(&memory, &config)?;
            claimed.set(Some(resident));
            Ok(resident)
        });
        if let (Err(_), Some(resident)) = (&entering, claimed.get()) {
            // Gives the claim back; if this fails, the claim ends when lancet has ended.
            let _ = quiet(&resident, &memory);
        }
        Ok(entered.claimed(entering?))
    }
}

impl Entered {
    /// A process in which no agent is claimed yet.
    fn unclaimed(
        (status, memory, functions): (Status, Arc<GuestMemory>, Functions),
        gadgets: Gadgets,
        ties: Ties,
    ) -> Self {
        Entered {
            status,
            memory,
            functions,
            resident: Resident::nowhere(),
            gadgets,
            _heartbeat: Heartbeat::still(),
            open: Cell::new(false),
            timing: Cell::default(),
            has_copy: Cell::new(false),
            threads: Vec::new(),
            ties,
        }
    }

    /// The same with its agent, which was claimed: from now on it hears that the command lives.
    fn claimed(mut self, resident: Resident) -> Self {
        self.resident = resident;
        self.open.set(true);
        self._heartbeat = Heartbeat::start(self.memory.clone(), &resident);
        self
    }

    /// Process id, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// The memory of the process, read and written through `/proc/PID/mem`.
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// The functions that its modules export.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// For how long it was stopped.
    pub fn timing(&self) -> Timing {
        self.timing.get()
    }

    /// Calls `work` while these threads are stopped.
    pub(crate) fn stopped<T>(
        &self,
        threads: Threads,
        work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let standstill = Standstill {
            status: &self.status,
            memory: &self.memory,
            gadgets: self.gadgets,
            ties: self.ties,
            threads,
        };
        standstill.run_timed(&self.timing, work)
    }

    /// Notes that the process can no longer be asked, so that it is not left when this value is dropped.
    pub(crate) fn give_up(&self) {
        self.open.set(false);
    }

    /// Makes the agent quiet: it also drops pending requests.
    pub(crate) fn go_quiet(&self) -> Result<()> {
        self.open.set(false);
        quiet(&self.resident, &self.memory)
    }

    /// Whether it can no longer be asked, because its agent was made quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.open.get()
    }

    /// Makes the process reap its copy, which has ended by now.
    fn reap(&self) -> Result<()> {
        if !self.has_copy.replace(false) {
            return Ok(());
        }
        let enter = self.resident.header.enter;
        self.stopped(Threads::Main, |_, remote| {
            remote.call(enter, REAP).map(drop)
        })
    }

    /// Makes the process reap its copy, if it has one, and the agent quiet. Returns for how long the process was stopped in all.
    ///
    /// # Errors
    /// The process could not be stopped, or its memory not be written.
    pub fn leave(&self) -> Result<Timing> {
        let reaped = self.reap();
        self.go_quiet()?;
        reaped.map(|()| self.timing())
    }
}

/// Makes an agent quiet.
fn quiet(resident: &Resident, memory: &GuestMemory) -> Result<()> {
    let state = offset_of!(ControlPage, state);
    resident.write_control_page(memory, state, State::Quiet as u32)
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.open.get() && !self.status.is_gone() {
            // The error cannot be returned.
            let _ = self.leave();
        }
    }
}
