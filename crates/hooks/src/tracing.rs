//! [`Tracing`]: the front of this crate, a process whose calls are traced. Used by `open`, `open::adopt` and others
//! here, and by crate `calls`.
//!
//! It combines the four parts and itself only ends a session. Its other methods are in files by subject: `open` (how tracing
//! begins), `own_hooks` and `notices` (events beside calls), `named`, `system_calls` and `ifuncs` (what is hooked).

use crate::areas::Areas;
use crate::bound::Cost;
use crate::parked::{self, Standing, Stays};
use crate::patcher::Patcher;
use crate::rings::Rings;
use crate::scripts::ScriptReaders;
use crate::state::Script;
use crate::system_calls::SystemCalls;
use crate::target::Target;
use crate::wanted::{Refused, Wanted, is_asked};
use inject::Timing;
use inject::heartbeat::{self, Heartbeat};
use inject::resident::Resident;
use process::error::{Error, Result};
use process::functions::{Function, Functions};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::proc_file;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::panicking;
use std::time::{Duration, Instant};
use wire::ControlPage;
use wire::calls::Calls;

/// When the functions of a program that has just begun can be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrives {
    /// Its functions can be hooked now.
    Now,
    /// Its functions can be hooked when its loader has loaded its libraries, before their constructors: [`Tracing::has_news`].
    AtLoader,
    /// It has no loader, and its functions can be hooked when its thread pointer is set: [`Tracing::has_thread_pointer`].
    AtThread,
}

/// A process whose calls are traced. Dropping it takes the hooks out, as [`Tracing::leave`] does.
#[derive(Debug)]
pub struct Tracing {
    pub(crate) target: Target,
    pub(crate) patcher: Patcher,
    /// What the hooks have written.
    pub(crate) rings: Rings,
    pub(crate) scripts: ScriptReaders,
    pub(crate) system_calls: SystemCalls,
    pub(crate) _heartbeat: Heartbeat,
    /// How long threads that have posted a notice wait for us.
    pub(crate) patience: Duration,
    /// Whether its children are followed.
    pub(crate) follow: bool,
    /// [`ControlPage::news`] as it was when the notices were read last.
    pub(crate) news: u32,
    /// Address of the loader's `r_debug`; 0 = not known yet.
    pub(crate) loader: u64,
    pub(crate) arrives: Arrives,
    /// Whether hooks may be set, which `drop` takes out.
    pub(crate) open: bool,
}

impl Tracing {
    /// What it is expected to take to hook so many functions, of which some may be refused.
    pub fn cost_of(&self, hooks: usize) -> Cost {
        self.target
            .bound()
            .map_or(Cost::default(), |bound| Cost::of(hooks, bound))
    }

    /// Hooks functions, many of them in several stops. Returns those that cannot be hooked, with the reason. A function that a thread is
    /// executing is tried again a moment later.
    pub fn set(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let refused = self.patcher.set(&self.target, wanted);
        self.patcher.forget_code();
        refused
    }

    /// Takes out the hooks with these numbers, and returns them with their functions. A hook that is also needed
    /// for ourselves, or that several functions of a script's language share, stays, and so do system calls. Calls that are open
    /// return through their hooks and are reported.
    ///
    /// # Errors
    /// [`Error::AtEvent`], if its main thread stands at something that its tracer must see first: nothing is out then.
    pub fn unhook(&mut self, numbers: &HashSet<u32>) -> Result<Vec<(u32, Function)>> {
        let table = &self.patcher.table;
        let set = table.set_ones().filter(|known| {
            let hook = &known.hook;
            let is_alone = hook.names[1] == 0 && hook.instruction == 0 && hook.patched != 0;
            let is_ours = is_asked(&self.target.resident, hook.routine);
            is_alone && !is_ours && numbers.contains(&(hook.number as u32))
        });
        let set = set.filter(|known| table.own_want(known.hook.place) == 0);
        let hooks: Vec<(u64, u32)> = set
            .map(|known| (known.hook.place, known.hook.number as u32))
            .collect();
        if hooks.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<u64> = hooks.iter().map(|(place, _)| *place).collect();
        self.patcher.lift(&self.target, &places, false)?;
        let function = |number: u32| Some((number, self.function(number)?.clone()));
        let functions = hooks.iter().filter_map(|(_, number)| function(*number));
        Ok(functions.collect())
    }

    /// The code that runs in the process for us: the agent's, and the stubs.
    pub fn own_code(&self) -> Vec<Range<u64>> {
        let mut code = self.patcher.areas.stubs();
        code.push(self.agent());
        code
    }

    /// The code that runs in the process for any lancet: the agents that are there, and their stubs. The process can write what names an
    /// agent itself.
    pub fn code_of_lancets(&self, maps: &Maps) -> Vec<Range<u64>> {
        let mut code = self.own_code();
        let memory = self.memory();
        for agent in Resident::all(memory, maps) {
            code.push(agent.base..agent.base.saturating_add(agent.header.size));
            if agent.is_readable()
                && let Ok(areas) = Areas::read(memory, agent.header.calls)
            {
                code.extend(areas.stubs());
            }
        }
        code
    }

    /// The functions of the process, as they were when it was last looked at.
    pub fn functions(&self) -> &Functions {
        &self.target.functions
    }

    /// The function with this number in the records.
    pub fn function(&self, hook: u32) -> Option<&Function> {
        self.patcher.table.function(hook)
    }

    /// Returns the places that always make the same system call, by the number of their hook: the number of that system call's
    /// hook, and the address of the instruction.
    pub fn system_call_places(&self) -> HashMap<u32, (u32, u64)> {
        let table = &self.patcher.table;
        let places = table.all().filter(|known| known.hook.instruction != 0);
        let of_one_call = places.filter_map(|known| {
            let called = table.get(known.hook.fixed)?;
            let numbers = [known.hook.number, called.hook.number];
            let [place, call] = numbers.map(|number| u32::try_from(number).ok());
            Some((place?, (call?, known.hook.instruction)))
        });
        of_one_call.collect()
    }

    /// Returns how many functions are hooked, without those that are hooked only for ourselves.
    pub fn hooked(&self) -> usize {
        self.patcher.table.told().count()
    }

    /// Returns how many functions were hooked at any time in this session.
    pub fn ever_hooked(&self) -> usize {
        self.patcher.table.functions_so_far()
    }

    /// Returns since when each call of a function goes through a frame of ours, by the function's address: without functions that an
    /// earlier session has hooked, that have no such frame, or not at each of their calls.
    pub fn framed(&self) -> HashMap<u64, Instant> {
        self.patcher.table.framed()
    }

    /// The reader of what the hooks have written.
    pub fn rings(&mut self) -> &mut Rings {
        &mut self.rings
    }

    /// The language whose lines are reported; empty = none.
    pub fn vm(&self) -> &'static str {
        self.scripts.script.name()
    }

    /// By what they are read, if its version has no table.
    pub fn without_table(&self) -> Option<&str> {
        match &self.scripts.script {
            Script::Vm(vm) => vm.note.as_deref(),
            Script::None(_) => None,
        }
    }

    /// Why script lines are not known, if they are not.
    pub fn no_lines(&self) -> Option<&str> {
        self.scripts.no_lines.as_deref()
    }

    /// The id of the process.
    pub fn pid(&self) -> i32 {
        self.target.pid()
    }

    /// Whether the process still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        self.target.is_alive()
    }

    /// Whether the process runs another program by now. One that is ending does not count.
    pub fn is_replaced(&self) -> bool {
        let program = std::fs::read_link(proc_file::path(self.pid(), "exe"));
        let is_ending = program.is_err_and(|error| proc_file::is_gone(&error));
        !is_ending && !self.target.has_agent() && self.is_alive()
    }

    /// How often and how long the process stood still.
    pub fn timing(&self) -> Timing {
        self.target.timing.get()
    }

    /// The addresses at which the agent is mapped.
    pub fn agent(&self) -> Range<u64> {
        self.target.agent()
    }

    /// Whether the kernel has still to end the process whose memory is gone; false where that cannot be found out.
    pub fn is_ending(&self) -> bool {
        self.target.is_ending()
    }

    /// Returns the signal that has ended the process, if it has and the kernel tells.
    pub fn ended_by(&self) -> Option<i32> {
        self.target.ended_by()
    }

    /// The memory of the process.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.target.memory
    }

    /// Opens the gate again if a hook has closed it because lancet was silent (stopped, frozen, suspended). Returns the
    /// time-stamp counter when the hook did so; calls since then were not recorded.
    pub fn end_silence(&self) -> Result<Option<u64>> {
        let silenced = offset_of!(Calls, silenced);
        let when = self.target.memory.word(self.target.calls_field(silenced))?;
        if when == 0 || !self.open {
            return Ok(None);
        }
        // The heartbeat changes first; otherwise the next check of a hook would close the gate again.
        let beat = offset_of!(ControlPage, heartbeat);
        self.target.set_on_control_page(beat, heartbeat::unique())?;
        self.target.set_calls_field(silenced, 0)?;
        self.target.open_gate()?;
        Ok(Some(when))
    }

    /// Takes all hooks out. The rings can still be read afterwards. Returns why the hook on the unwinder stays, if it does: while
    /// frames of ours are on some stack (`parked`).
    pub fn leave(&mut self) -> Result<Option<Stays>> {
        let left = self.leave_hooks();
        // If leaving is tried again, the waiting threads go on waiting.
        if !matches!(left, Err(Error::AtEvent { .. })) {
            self.release_locking();
        }
        left
    }

    fn leave_hooks(&mut self) -> Result<Option<Stays>> {
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
        let lifted = self.patcher.lift(target, &first, true);
        let left = lifted.and_then(|lifted| {
            self.rings.note_open(&lifted.open);
            self.forget_blocks()?;
            if last.is_empty() {
                return Ok(None);
            }
            let stays = self.wait_for_frames(lifted.standing)?;
            if stays.is_none() {
                self.patcher.lift(&self.target, &last, false)?;
            }
            Ok(stays)
        });
        // The main thread stands at an event; its tracer sets it going from there and has us try again.
        if let Err(event @ Error::AtEvent { .. }) = left {
            return Err(event);
        }
        // If the stop failed, the records are silenced without it. The agent is given back in any case: the gate is closed, so
        // hooks that are left report nothing, and the next attach silences and lifts them.
        let target = &self.target;
        let silenced = self.patcher.table.silence_all(&target.memory);
        target.set_on_control_page(offset_of!(ControlPage, state), 0u32)?;
        let stays = left?;
        silenced.map(|()| stays)
    }

    /// Says in words why a hook stays.
    pub fn why(&self, stays: Stays) -> String {
        match stays {
            Stays::Frame { at, place } => {
                let function = self
                    .patcher
                    .table
                    .get(place)
                    .and_then(|known| known.function.as_ref());
                let name =
                    function.map_or_else(|| format!("{place:#x}"), |one| one.name.to_string());
                format!("a call of {name} may still return through a frame of ours ({at:#x})")
            }
            Stays::Inside => "a thread was in a hook each time it was stopped".into(),
            Stays::NotSearched => {
                "not all of its memory could be searched for frames of ours".into()
            }
        }
    }

    fn wait_for_frames(&self, standing: Standing) -> Result<Option<Stays>> {
        let mut ours = self.rings.ranges();
        ours.push(self.agent());
        let target = &self.target;
        let stubs = self.patcher.areas.stubs();
        parked::wait_for_frames(&target.memory, &target.resident, &ours, standing, || {
            target.stopped(|stop, remote| {
                Standing::read(stop, remote, &target.layers()?, (&target.resident, &stubs))
            })
        })
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // In a panic, leaving may have begun and not have come to its end.
        if (self.open || panicking()) && self.is_alive() && self.target.has_agent() {
            // An error here has no caller to return to. A panic here may come while another one unwinds, and would then end the
            // command.
            let _ = catch_unwind(AssertUnwindSafe(|| self.leave()));
        }
    }
}
