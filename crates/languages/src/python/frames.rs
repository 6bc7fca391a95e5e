//! Reads script frames of Python. Used by `python`.
//!
//! Up to 3.10 each frame has a call of `_PyEval_EvalFrameDefault` of its own. Since 3.11 calls from Python to Python stay in
//! one call, and a record of the VM's in its native frame shows where a run ends (`vm::python`, `frames`).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use process::snapshot::{Copies, Thread, UnwindContext};
use vm::python::{Error, Facts, Flavour, Frame, Generator, Greenlet, Python};
use vm::{Language, Memory};

use super::greenlet::{self, Resumed};
use super::script;
use crate::frames::{
    Chain, Copied, Coroutine, Cut, FoundScripts, LONGEST, Module, NO_TABLE, NotRead, Parked,
    Placement, Script, Scripts, Sources, Through, Turn, VmThread, WithoutTable, pages_of, text,
};
use process::pages::Pages;

/// A symbol that every Python exports, and nothing else.
const MARK: &str = Language::Python.description().mark;
/// The function that runs frames (`Python/ceval.c`).
const RUNNER: &str = "_PyEval_EvalFrameDefault";

/// The functions in which a thread waits for the GIL, and for nothing else in Python: `take_gil` waits on a condition
/// variable (`Python/ceval_gil.h`, since 3.12 `ceval_gil.c`; 3.9 to 3.15).
const GIL: &[&str] = &["pthread_cond_", "__pthread_cond_"];
/// The functions in which a thread waits for a lock of `threading`: up to 3.12 the first (`Python/thread_pthread.h`), since
/// 3.13 the second (`Python/parking_lot.c`). Both are exported.
const LOCK: &[&str] = &["PyThread_acquire_lock_timed", PARKING];
const PARKING: &str = "_PySemaphore_Wait";

/// What such a thread is in. The second where it may be a lock of the VM's own, as each object and each list has one without the GIL.
const ACQUIRE: &str = "acquire of a lock";
const ACQUIRE_MAYBE: &str = "acquire of a lock, maybe one of the VM";

const GREENLET: &str = "greenlet";
/// Limit of the length of a chain of coroutines that wait for each other.
const LONGEST_CHAIN: usize = 1 << 12;

/// For so long the name of a thread is not read again: to find it takes reading those of all threads.
const KEPT: Duration = Duration::from_secs(2);
/// Threads of which the name is kept at most.
const MOST_NAMED: usize = 1 << 14;

/// A name, if the thread has one, and when it was read.
type Named = (Option<String>, Instant);

struct Vm {
    facts: Facts,
    /// How it is read without a table.
    without_table: Option<WithoutTable>,
    /// Whether frames of a thread could not be read.
    cut: Cut,
    runner: Vec<Range<u64>>,
    /// The names that `threading` has for the threads, by `pthread_t`, as far as they were read since the process stood
    /// still.
    names: RefCell<HashMap<u64, Option<String>>>,
    /// The names of kernel threads, by their own ids and their `pthread_t`, and when each was read.
    named: RefCell<HashMap<(i32, u64), Named>>,
    /// The code at which parked greenlets go on, if the module is loaded.
    resumed: Option<Resumed>,
}

/// Returns the reader if the process runs Python.
pub fn find(modules: &[&dyn Module], memory: &dyn Memory, sources: &dyn Sources) -> FoundScripts {
    let loaded = modules
        .iter()
        .find(|loaded| loaded.exported(memory, MARK).is_some())?;
    let symbol = |name: &str| loaded.exported(memory, name);
    let (facts, without_table) = match script::facts(memory, &symbol, sources) {
        Ok(found) => found,
        Err(unread) => return unread.found(),
    };
    let runner = loaded.exported(memory, RUNNER);
    let runner = runner.map_or_else(Vec::new, |start| loaded.extent(memory, start));
    Some(Ok(Box::new(Vm {
        facts,
        without_table,
        cut: Cut::default(),
        runner,
        names: RefCell::default(),
        named: RefCell::default(),
        resumed: greenlet::find(modules, memory),
    })))
}

/// Returns the `PyThreadState` that runs on this native stack. Usually the thread's own data lead to it; otherwise it is
/// searched for.
fn state<M: Memory>(python: &Python<'_, M>, thread: &Thread) -> Option<u64> {
    let area = thread.context.thread_area;
    match python.thread_state(area) {
        Ok(Some(state)) => Some(state),
        _ => python.find_thread(area).ok()?,
    }
}

impl Vm {
    /// Returns frames up to the first that cannot be read.
    fn scripts<M: Memory>(
        &self,
        python: &Python<'_, M>,
        frames: impl Iterator<Item = Result<Frame, Error>>,
    ) -> Chain {
        let (frames, is_whole) = self.cut.until_error(frames);
        let scripts = frames.into_iter().map(|frame| self.script(python, frame));
        Chain {
            scripts: scripts.collect(),
            is_whole,
        }
    }

    fn script<M: Memory>(&self, python: &Python<'_, M>, frame: Frame) -> Script {
        let code = frame.point.code;
        let line = python.line(frame.point).ok().flatten().unwrap_or(0);
        Script {
            launcher: false,
            path: text(|out| python.write_text(python.file(code)?, LONGEST, out)),
            line: self
                .without_table
                .as_ref()
                .map_or(line, |how| how.line(line)),
            name: text(|out| python.write_text(python.function_name(code)?, LONGEST, out)),
            qualified: None,
            placement: match frame {
                Frame { entry: false, .. } => Placement::SameRun,
                Frame { native: 0, .. } => Placement::EndsRun,
                Frame { native, .. } => Placement::EndsRunAround(native),
            },
        }
    }

    /// Returns what a thread acquires that sleeps in one of [`LOCK`], and the address of that. Without the GIL the VM has many locks of its own.
    fn acquires<M: Memory>(
        &self,
        python: &Python<'_, M>,
        state: u64,
        through: &Through,
    ) -> (Option<&'static str>, Option<u64>) {
        let caller = through.caller.as_deref().unwrap_or_default();
        if !LOCK.contains(&caller) {
            return (None, None);
        }
        if caller != PARKING {
            return (Some(ACQUIRE), Some(through.argument));
        }
        let word = python.parked_on(through.argument).ok();
        let function = match word {
            Some(word) if python.is_of_state(state, word) => return (None, None),
            Some(word) if self.facts.is_free_threaded() && !python.is_in_lock(word) => {
                if word == 0 || python.is_of_runtime(word) {
                    return (None, None);
                }
                ACQUIRE_MAYBE
            }
            _ => ACQUIRE,
        };
        (Some(function), word)
    }

    /// Returns the name of a thread.
    fn name(&self, memory: &dyn Memory, thread: &Thread) -> Option<String> {
        let id = thread.context.thread_area;
        let mut named = self.named.borrow_mut();
        let known = named.get(&(thread.own_id, id));
        if let Some((name, _)) = known.filter(|(_, since)| since.elapsed() < KEPT) {
            return name.clone();
        }
        let name = self.read_name(memory, id);
        if named.len() >= MOST_NAMED {
            named.clear();
        }
        named.insert((thread.own_id, id), (name.clone(), Instant::now()));
        name
    }

    /// Reads the name of the thread with this `pthread_t`. All names are read at the first call.
    fn read_name(&self, memory: &dyn Memory, thread: u64) -> Option<String> {
        let mut names = self.names.borrow_mut();
        if !names.contains_key(&thread) {
            let pages = Pages::new(memory);
            if let Ok(python) = Python::new(&pages, self.facts) {
                // An error ends the reading; the names read until then are used.
                let _ = python.each_thread_name(&mut |id, name| {
                    let name = text(|out| python.write_text(name, LONGEST, out));
                    names.insert(id, Some(name));
                });
            }
        }
        names.entry(thread).or_default().clone()
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        let build = match self.facts.is_free_threaded() {
            true => " (free-threaded)",
            false => "",
        };
        format!("Python {}{build}", self.facts.version())
    }

    fn no_coroutines(&self) -> Option<&'static str> {
        match (self.facts.has_table(), self.facts.is_free_threaded()) {
            (false, _) => Some(NO_TABLE),
            (true, true) => Some("has no list of its objects"),
            (true, false) => None,
        }
    }

    fn without_table(&self) -> Option<&WithoutTable> {
        self.without_table.as_ref()
    }

    fn take_lost(&self) -> Vec<NotRead> {
        let lost = self.cut.take(&self.language());
        lost.into_iter().collect()
    }

    /// Without the GIL: the list of the copies of a function's instructions is replaced and freed when another thread first runs the function.
    fn needs_stop(&self) -> bool {
        self.facts.is_free_threaded()
    }

    fn is_torn(&self, memory: &dyn Memory, thread: &Thread) -> bool {
        let pages = Pages::new(memory);
        let Ok(python) = Python::new(&pages, self.facts) else {
            return false;
        };
        let state = state(&python, thread);
        state.is_some_and(|state| python.frames(state).any(|frame| frame.is_err()))
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Vec<Range<u64>> {
        self.names.borrow_mut().clear();
        pages_of(memory, |pages| {
            let python = Python::new(pages, self.facts).ok()?;
            let state = state(&python, thread)?;
            python.frames(state).for_each(drop);
            if self.facts.has_table() {
                // The memory that it reads before an error is wanted too.
                let _ = python.each_held(state, &mut |_| ());
            }
            Some(())
        })
    }

    fn frames(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Option<Chain> {
        let pages = Pages::new(memory);
        let python = Python::new(&pages, self.facts).ok()?;
        let state = state(&python, thread)?;
        Some(self.scripts(&python, python.frames(state)))
    }

    fn thread(
        &self,
        memory: &dyn Memory,
        thread: &Thread,
        _copied: &Copies,
        through: &Through,
    ) -> Option<VmThread> {
        let python = Python::new(&memory, self.facts).ok()?;
        let id = state(&python, thread)?;
        let function = through.function.as_deref().unwrap_or_default();
        let mut waits_for_gil = GIL.iter().any(|name| function.starts_with(name));
        let mut turn_of = None;
        if self.facts.has_table() && waits_for_gil {
            turn_of = python.gil_holder(through.argument).ok().flatten();
        }
        // Without a GIL it is a condition of some extension, unless one was switched on and somebody has it.
        waits_for_gil &= !self.facts.is_free_threaded() || turn_of.is_some();
        let turn = match waits_for_gil {
            true => Turn::Waits,
            false => Turn::Unknown,
        };
        if !self.facts.has_table() {
            return Some(VmThread {
                id,
                turn,
                ..VmThread::default()
            });
        }
        let (function, may_want) = self.acquires(&python, id, through);
        let mut holds = Vec::new();
        // An error ends the reading; the locks read until then are used.
        let _ = python.each_held(id, &mut |lock| holds.push(lock));
        Some(VmThread {
            id,
            name: self.name(memory, thread),
            may_want,
            holds,
            turn,
            turn_of,
            function: function.map(str::to_owned),
            ..VmThread::default()
        })
    }

    fn coroutines(&self, memory: &dyn Memory) -> (Vec<Coroutine>, bool) {
        if self.no_coroutines().is_some() {
            return (Vec::new(), false);
        }
        let pages = Pages::new(memory);
        let mut found = Vec::new();
        let whole = Python::new(&pages, self.facts).and_then(|python| search(&python, &mut found));
        (found, whole.is_ok())
    }

    fn parked(&self, memory: &dyn Memory, one: &Coroutine) -> Option<Parked> {
        let python = Python::new(&memory, self.facts).ok()?;
        let Some(greenlet) = as_greenlet(&python, one) else {
            let waiting = waiting(&python, one.object);
            waiting
                .iter()
                .for_each(|one| python.generator_frame(one).for_each(drop));
            return (!waiting.is_empty()).then(Parked::default);
        };
        // A greenlet that runs, has not begun or has ended has no frame.
        if greenlet.frame == 0 {
            return None;
        }
        python.greenlet_frames(&greenlet).for_each(drop);
        let (start, end) = greenlet.stack;
        let copied = Copied {
            from: start..start.saturating_add(greenlet.saved).min(end),
            at: greenlet.copy,
        };
        let context = self.resumed.and_then(|resumed| {
            let slot = start.wrapping_add(resumed.bp_at);
            let slot = copied.find(slot).map_or(slot, |(lies, _)| lies);
            Some(UnwindContext {
                ip: resumed.ip,
                sp: start,
                bp: memory.u64(slot).ok()?,
                thread_area: 0,
            })
        });
        Some(Parked {
            context,
            stack: start..end,
            copied: Some(copied),
        })
    }

    fn coroutine(&self, memory: &dyn Memory, one: &Coroutine) -> Chain {
        let pages = Pages::new(memory);
        let Ok(python) = Python::new(&pages, self.facts) else {
            return Chain::default();
        };
        if let Some(greenlet) = as_greenlet(&python, one) {
            return self.scripts(&python, python.greenlet_frames(&greenlet));
        }
        let waiting = waiting(&python, one.object);
        let frames = waiting.iter().rev();
        self.scripts(&python, frames.flat_map(|one| python.generator_frame(one)))
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }
}

/// Finds greenlets, and generators and coroutines that no other one waits for.
fn search<M: Memory>(python: &Python<'_, M>, found: &mut Vec<Coroutine>) -> Result<(), Error> {
    if let Some(class) = python.greenlet_class()? {
        python.each_greenlet(&mut |greenlet| {
            found.push(Coroutine {
                kind: GREENLET,
                object: greenlet.address,
                detail: class,
            });
            Ok(())
        })?;
    }
    let (mut generators, mut awaited) = (Vec::new(), BTreeSet::new());
    python.each_generator(&mut |generator| {
        awaited.insert(generator.awaits);
        generators.push(generator);
        Ok(())
    })?;
    generators.retain(|generator| !awaited.contains(&generator.address));
    found.extend(generators.iter().map(|generator| Coroutine {
        kind: match generator.flavour {
            Flavour::Generator => "generator",
            Flavour::Coroutine => "coroutine",
            Flavour::AsyncGenerator => "async generator",
        },
        object: generator.address,
        detail: 0,
    }));
    Ok(())
}

fn as_greenlet<M: Memory>(python: &Python<'_, M>, one: &Coroutine) -> Option<Greenlet> {
    match one.kind {
        GREENLET => python.greenlet(one.detail, one.object).ok()?,
        _ => None,
    }
}

/// Returns the generator or coroutine at `object`, the one that it waits for, and so on; empty if it is not suspended.
fn waiting<M: Memory>(python: &Python<'_, M>, object: u64) -> Vec<Generator> {
    let mut chain: Vec<Generator> = Vec::new();
    let mut next = object;
    while next != 0
        && chain.len() < LONGEST_CHAIN
        && let Ok(Some(one)) = python.generator(next)
    {
        next = one.awaits;
        chain.push(one);
    }
    chain
}
