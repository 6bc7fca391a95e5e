//! The process whose functions are hooked: who it is, its memory, the agent in it, its functions, and how it is
//! stopped. Used by `batches`, `built`, `inline` and others.

use crate::bound::Bound;
use crate::layers::Layers;
use crate::standstill::{Standstill, Threads};
use inject::Timing;
use inject::agents::Agents;
use inject::heartbeat;
use inject::records::Record;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use process::ending;
use process::error::{Error, Result};
use process::functions::Functions;
use process::guest::{Status, missing_thread};
use process::memory::GuestMemory;
use process::pidfd::PidFd;
use process::stop::{Stop, Ties, thread_ids};
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wire::ControlPage;
use wire::calls::Calls;

/// One process that is hooked, for as long as a session has it open.
#[derive(Debug)]
pub(crate) struct Target {
    pub status: Status,
    /// The process itself, whatever gets its id later: how it ended is asked of this. `None`: it could not be held.
    pub held: Option<PidFd>,
    pub memory: Arc<GuestMemory>,
    /// Instructions in the process that remote calls use.
    pub gadgets: Gadgets,
    /// The agent in it.
    pub resident: Resident,
    pub functions: Functions,
    /// The value of the gate while hooks report to this session; never 0.
    pub session: u32,
    /// How its main thread is held between stops.
    pub ties: Ties,
    /// How often and how long it was stopped. A cell, because a stop changes nothing else here.
    pub timing: Cell<Timing>,
    /// The longest stop ([`Options::max_stop`](crate::Options::max_stop)); `None` = its program has not begun, so no stop is too long.
    pub max_stop: Option<Duration>,
    /// The agents in it, as they were found before the last stop.
    pub agents: RefCell<Option<Agents>>,
}

impl Target {
    /// Does `work` while all its threads stand still, with the main thread ready for remote calls. `work` is repeated
    /// if a thread stood where it could not be used, so it must allow that.
    pub fn stopped<T>(
        &self,
        work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        self.standing(Threads::All, work)
    }

    /// Does `work` while only its main thread stands still.
    pub fn main_stopped<T>(
        &self,
        mut work: impl FnMut(&mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        self.standing(Threads::Main, |_, remote| work(remote))
    }

    fn standing<T>(
        &self,
        threads: Threads,
        work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        if threads == Threads::All {
            self.find_agents()?;
        }
        let standstill = Standstill {
            status: &self.status,
            memory: &self.memory,
            gadgets: self.gadgets,
            ties: self.ties,
            threads,
        };
        standstill.run_timed(&self.timing, work)
    }

    /// How long it may stand still at once; `None` = as long as it takes.
    pub fn bound(&self) -> Option<Bound> {
        // A process whose threads cannot be counted is gone, as the stop will say.
        let threads = || thread_ids(self.pid()).map_or(0, |all| all.len());
        Some(Bound::of(self.max_stop?, threads()))
    }

    /// The hooks of all commands in it; asked in a stop.
    pub fn layers(&self) -> Result<Layers<'_>> {
        let agents = self.agents.borrow();
        let agents = agents.as_ref().ok_or_else(|| missing_thread(self.pid()))?;
        Ok(Layers::with(&self.memory, agents.read(&self.memory)?))
    }

    /// Finds the agents in it, if one may have come since they were found last.
    fn find_agents(&self) -> Result<()> {
        let mut agents = self.agents.borrow_mut();
        if !agents
            .as_ref()
            .is_some_and(|agents| agents.are_all(self.pid()))
        {
            *agents = Some(Agents::find(&self.memory)?);
        }
        Ok(())
    }

    /// Does `writes`, and repeats them in a stop if the kernel lets only a tracer write there: what the process itself
    /// may not write, such as the records of hooks. `writes` must allow being repeated.
    pub fn forced(&self, mut writes: impl FnMut(&GuestMemory) -> Result<()>) -> Result<()> {
        match writes(&self.memory) {
            Err(Error::WriteProtected(_)) => self.stopped(|_, _| writes(&self.memory)),
            done => done,
        }
    }

    /// Opens the gate, the word that every hook reads first: it gets the number of our session. Hooks report nothing
    /// while it has another value, and a fork sets it to 0 in the child.
    pub fn open_gate(&self) -> Result<()> {
        self.set_on_control_page(offset_of!(ControlPage, calls), self.session)
    }

    /// Closes the gate. After this no hook writes a record.
    pub fn close_gate(&self) -> Result<()> {
        self.set_on_control_page(offset_of!(ControlPage, calls), 0u32)
    }

    /// A 32-bit field of the control page.
    pub fn control_page_u32(&self, offset: usize) -> Result<u32> {
        self.resident.control_page_u32(&self.memory, offset)
    }

    /// Sets a field of the control page.
    pub fn set_on_control_page<T: Record>(&self, offset: usize, value: T) -> Result<()> {
        self.resident
            .write_control_page(&self.memory, offset, value)
    }

    /// The address of a field of [`Calls`].
    pub fn calls_field(&self, offset: usize) -> u64 {
        self.resident.header.calls + offset as u64
    }

    /// Sets a 64-bit field of [`Calls`].
    pub fn set_calls_field(&self, offset: usize, value: u64) -> Result<()> {
        self.memory
            .write(self.calls_field(offset), &value.to_le_bytes())
    }

    /// How long threads that have posted a notice wait for us from now on.
    pub fn set_patience(&self, patience: Duration) -> Result<()> {
        self.set_calls_field(offset_of!(Calls, patience), heartbeat::ticks(patience))
    }

    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// Whether the process still runs, and its id does not belong to another one by now; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        !self.status.is_gone()
    }

    /// Whether the kernel has still to end the process: its memory goes first, which takes long if it is large, and how it ended is told
    /// afterwards. False where that cannot be found out.
    pub fn is_ending(&self) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| !held.has_ended(Duration::ZERO))
    }

    /// Returns the signal that has ended the process, if it has and the kernel tells.
    pub fn ended_by(&self) -> Option<i32> {
        ending::signal_of(self.held.as_ref()?, self.pid())
    }

    /// Whether the memory that the agent was mapped in still exists: an exec takes it away. True also where that cannot be found out.
    pub fn has_agent(&self) -> bool {
        let read = self.memory.word(self.resident.base);
        !read.is_err_and(|error| error.is_left() || error.is_missing_memory())
    }

    /// Where the agent is mapped.
    pub fn agent(&self) -> Range<u64> {
        self.resident.base..self.resident.base + self.resident.header.size
    }
}
