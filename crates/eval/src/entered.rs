//! A process in which an agent is that a borrowed main thread calls: what is alike for every VM that is not entered at its births.
//!
//! ```text
//!   open ────────► agent mapped, or found; claimed; heartbeat begun
//!   stopped ─────► threads stand still, the main one makes remote calls
//!   leave, drop ─► it waits for the copy it has made, the agent is quiet
//! ```

mod copied;

use hooks::{Standstill, Threads, lift_left};
use inject::heartbeat::{Heartbeat, ticks, unique};
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use inject::residents::Residents;
use inject::{Image, Timing};
use process::error::Result;
use process::functions::Functions;
use process::guest::{self, Status};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::control_page::enter::REAP;
use wire::{Config, ControlPage, State};

/// Without a heartbeat for this long, the agent is deserted.
const DESERTED_AFTER: Duration = Duration::from_secs(5);

/// A process that our agent is in, from [`Reached::enter`] until it is left, which dropping this value does too. If lancet is killed, the agent
/// goes quiet by itself when the heartbeat has been missing for five seconds.
#[derive(Debug)]
pub struct Entered {
    pub(crate) status: Status,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) functions: Functions,
    pub(crate) resident: Resident,
    gadgets: Gadgets,
    /// Kept: when it is dropped, the heartbeat ends.
    _heartbeat: Heartbeat,
    open: Cell<bool>,
    timing: Cell<hooks::Timing>,
    /// Whether the process has made a copy of itself that it has not waited for.
    pub(crate) has_copy: Cell<bool>,
}

/// A process that was looked at and not yet entered.
#[derive(Debug)]
pub struct Reached {
    status: Status,
    memory: Arc<GuestMemory>,
    maps: Maps,
    /// What its modules export.
    pub functions: Functions,
}

impl Reached {
    /// Reads what must be known of a process before an agent is put into it, without stopping it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(pid: i32) -> Result<Self> {
        let (status, memory, maps) = guest::reach(pid)?;
        let functions = Functions::read(pid, &memory, &maps)?;
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

    /// Puts the agent into the process, or takes the one that an earlier attach has left there.
    ///
    /// # Errors
    /// It cannot be opened, or somebody else's agent is in the way.
    pub fn enter(self, image: &Image) -> Result<Entered> {
        let Reached {
            status,
            memory,
            maps,
            functions,
        } = self;
        let mut residents = Residents::read(&memory, &maps, image)?;
        let gadgets = Gadgets::find(status.pid, &memory, &maps)?;
        // Takes out hooks that a `calls` that was killed has left.
        lift_left(&status, &memory, gadgets, &residents)?;
        let mut entered = Entered {
            status,
            memory: memory.clone(),
            functions,
            resident: Resident::nowhere(),
            gadgets,
            _heartbeat: Heartbeat::still(),
            open: Cell::new(false),
            timing: Cell::default(),
            has_copy: Cell::new(false),
        };
        let config = Config {
            session: unique(),
            heartbeat_ticks: ticks(DESERTED_AFTER),
            ..Config::default()
        };
        let claimed = Cell::new(None);
        let entering = entered.stopped(Threads::Main, |_, remote| {
            let (resident, _) = residents.take(remote, &memory, image, false)?;
            // Within the stop in which it is seen that nobody has it: another command that stops the process right behind us sees that we do.
            resident.claim(&memory, &config)?;
            claimed.set(Some(resident));
            Ok(resident)
        });
        if let (Err(_), Some(resident)) = (&entering, claimed.get()) {
            // It is nobody's again; if this fails, it is so when we have ended.
            let _ = quiet(&resident, &memory);
        }
        let resident = entering?;
        let beat = resident.header.control_page + offset_of!(ControlPage, heartbeat) as u64;
        entered.resident = resident;
        entered.open.set(true);
        entered._heartbeat = Heartbeat::start(memory, beat);
        Ok(entered)
    }
}

impl Entered {
    /// Process id, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// The memory of the process, read and written through `/proc/PID/mem`.
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// What its modules export.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// How long it has stood still for us.
    pub fn timing(&self) -> Timing {
        let timing = self.timing.get();
        Timing {
            stopped: timing.stopped,
            longest_stop: timing.longest_stop,
            stops: timing.stops,
            answered: Duration::ZERO,
        }
    }

    /// Does `work` while these threads stand still.
    pub(crate) fn stopped<T>(
        &self,
        threads: Threads,
        work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let standstill = Standstill {
            status: &self.status,
            memory: &self.memory,
            gadgets: self.gadgets,
            ties: Ties::None,
            threads,
        };
        let mut timing = self.timing.get();
        let done = standstill.run(&mut timing, work);
        self.timing.set(timing);
        done
    }

    /// Tells the agent to do nothing any more, also of what was asked for before.
    pub(crate) fn go_quiet(&self) -> Result<()> {
        self.open.set(false);
        quiet(&self.resident, &self.memory)
    }

    /// Has it wait for the copy it has made, which has ended by now.
    fn reap(&self) -> Result<()> {
        if !self.has_copy.replace(false) {
            return Ok(());
        }
        let enter = self.resident.header.enter;
        self.stopped(Threads::Main, |_, remote| {
            remote.call(enter, REAP).map(drop)
        })
    }

    /// Has the process wait for its copy, if it has one, tells the agent to go quiet, and returns how long it has stood still for us, with this.
    ///
    /// # Errors
    /// The process could not be stopped, or its memory not be written.
    pub fn leave(&self) -> Result<Timing> {
        let reaped = self.reap();
        self.go_quiet()?;
        reaped.map(|()| self.timing())
    }
}

/// Says to an agent that nothing is asked of it any more.
fn quiet(resident: &Resident, memory: &GuestMemory) -> Result<()> {
    let state = offset_of!(ControlPage, state);
    resident.write_control_page(memory, state, State::Quiet as u32)
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.open.get() && self.status.is_current() {
            // Nobody is left to tell.
            let _ = self.leave();
        }
    }
}
