//! [`Tracing`]: the front of this crate, a process whose calls are traced.
//!
//! It holds the four parts and has no work of its own but the end. What it does is in files by subject: `open` (how it
//! begins), `own` and `notices` (what the process tells us beside calls), `named`, `system_calls` and `picks` (what is
//! hooked).

use crate::parked;
use crate::patcher::Patcher;
use crate::rings::Rings;
use crate::scripts::ScriptReaders;
use crate::system_calls::SystemCalls;
use crate::target::Target;
use crate::wanted::{Refused, Timing, Wanted, is_asked};
use inject::heartbeat::{self, Heartbeat};
use process::error::{Error, Result};
use process::functions::{Function, Functions};
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::panicking;
use std::time::Duration;
use wire::ControlPage;
use wire::calls::Calls;

/// Where a program that has just begun says that its functions can be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrives {
    /// They can be hooked now.
    Now,
    /// When its loader has loaded its libraries, before their constructors: [`Tracing::has_news`].
    AtLoader,
    /// It has no loader: when its thread pointer is set, [`Tracing::has_thread_pointer`].
    AtThread,
}

/// A process whose calls are traced. Dropping it takes the hooks out, as [`Tracing::leave`] does.
#[derive(Debug)]
pub struct Tracing {
    /// Which process.
    pub(crate) target: Target,
    /// Its hooks.
    pub(crate) patcher: Patcher,
    /// What they have written.
    pub(crate) rings: Rings,
    /// Its VM.
    pub(crate) scripts: ScriptReaders,
    pub(crate) system_calls: SystemCalls,
    pub(crate) _heartbeat: Heartbeat,
    /// How long threads that have posted a notice wait for us.
    pub(crate) patience: Duration,
    /// Its children are followed.
    pub(crate) follow: bool,
    /// [`ControlPage::news`] as it was when the notices were read last.
    pub(crate) news: u32,
    /// Address of the loader's `r_debug`; 0 = not known yet.
    pub(crate) loader: u64,
    pub(crate) arrives: Arrives,
    /// Hooks may be set, and are taken out by `drop`.
    pub(crate) open: bool,
}

impl Tracing {
    /// Hooks functions, in one stop; those that cannot be hooked, and why. What is in a thread's way is tried again a
    /// moment later.
    pub fn set(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let refused = self.patcher.set(&self.target, wanted);
        self.patcher.forget_code();
        refused
    }

    /// The functions of the process, as they were when it was last looked at.
    pub fn functions(&self) -> &Functions {
        &self.target.functions
    }

    /// The function with this number in the records.
    pub fn function(&self, hook: u32) -> Option<&Function> {
        self.patcher.table.function(hook)
    }

    /// How many functions are hooked, without those that are hooked for ourselves alone.
    pub fn hooked(&self) -> usize {
        self.patcher.table.told().count()
    }

    /// How many functions were hooked at some time in this session.
    pub fn ever_hooked(&self) -> usize {
        self.patcher.table.functions_so_far()
    }

    /// The reader of what the hooks have written.
    pub fn rings(&mut self) -> &mut Rings {
        &mut self.rings
    }

    /// The language whose lines are told; empty = none.
    pub fn vm(&self) -> &'static str {
        self.scripts.script.name()
    }

    /// Why script lines are not known, if they are not.
    pub fn no_lines(&self) -> Option<&str> {
        self.scripts.no_lines.as_deref()
    }

    /// The id of the process.
    pub fn pid(&self) -> i32 {
        self.target.pid()
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.target.is_alive()
    }

    /// Whether the process runs another program by now. One that is ending runs none.
    pub fn is_replaced(&self) -> bool {
        let program = format!("/proc/{}/exe", self.pid());
        !self.target.has_agent() && self.is_alive() && std::fs::read_link(program).is_ok()
    }

    /// How often and how long the process stood still.
    pub fn timing(&self) -> Timing {
        self.target.timing.get()
    }

    /// The addresses at which the agent is mapped.
    pub fn agent(&self) -> Range<u64> {
        self.target.agent()
    }

    /// The memory of the process.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.target.memory
    }

    /// Opens the gate again if a hook has closed it because we were silent (stopped, frozen, suspended): the time-stamp
    /// counter when it did. What was called since then is not known.
    pub fn end_silence(&self) -> Result<Option<u64>> {
        let silenced = offset_of!(Calls, silenced);
        let when = self.target.memory.word(self.target.calls_field(silenced))?;
        if when == 0 || !self.open {
            return Ok(None);
        }
        // A beat first: the next look of a hook would find us as silent as the last.
        let beat = offset_of!(ControlPage, heartbeat);
        self.target.set_on_control_page(beat, heartbeat::unique())?;
        self.target.set_calls_field(silenced, 0)?;
        self.target.open_gate()?;
        Ok(Some(when))
    }

    /// Takes all hooks out. What the rings hold can still be read afterwards. Whether all of them are out: the one on
    /// the unwinder stays where frames of ours are still on some stack (`parked`).
    pub fn leave(&mut self) -> Result<bool> {
        self.open = false;
        let target = &self.target;
        target.close_gate()?;
        let (last, first): (Vec<_>, Vec<_>) = self
            .patcher
            .table
            .set_ones()
            .map(|known| {
                let unwinder = is_asked(&target.resident, known.hook.routine);
                (known.hook.place, unwinder)
            })
            .partition(|(_, is_unwinder)| *is_unwinder);
        let places = |hooks: Vec<(u64, bool)>| -> Vec<u64> {
            hooks.into_iter().map(|(place, _)| place).collect()
        };
        let (first, last) = (places(first), places(last));
        let mut lifted = self.patcher.lift(target, &first, true);
        let parked = match &lifted {
            Ok(lifted) => {
                self.rings.note_open(&lifted.open);
                self.has_parked_frames(&lifted.stacks)
            }
            Err(_) => true,
        };
        if lifted.is_ok() && !last.is_empty() && !parked {
            lifted = self.patcher.lift(target, &last, false);
        }
        // Its main thread stands at an event; from there its tracer sets it going and has us try again.
        if let Err(event @ Error::AtEvent { .. }) = lifted {
            return Err(event);
        }
        // Where the stop failed, what it would have done. The agent is given back whatever became of this: the gate is
        // closed, so hooks that are left tell nothing, and the next attach silences and lifts them.
        let silenced = self.patcher.table.silence_all(&target.memory);
        target.set_on_control_page(offset_of!(ControlPage, state), 0u32)?;
        lifted?;
        silenced.map(|()| !parked || last.is_empty())
    }

    fn has_parked_frames(&self, stacks: &[u64]) -> bool {
        let mut ours = self.rings.ranges();
        ours.push(self.agent());
        parked::may_be(&self.target.memory, &self.target.resident, &ours, stacks)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // In a panic, leaving may have begun and not have come to its end.
        if (self.open || panicking()) && self.is_alive() && self.target.has_agent() {
            // An error here has no caller who could be told of it. A panic may come while another unwinds, and would then
            // end the command.
            let _ = catch_unwind(AssertUnwindSafe(|| self.leave()));
        }
    }
}
