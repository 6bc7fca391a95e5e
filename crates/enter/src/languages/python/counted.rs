//! A Python whose births are counted by the agent: how it is opened, and what the agent is asked. Used by `entry` and
//! `collected`.
//!
//! The agent puts functions of its own in front of the VM's allocators, so it is asked to begin, to count and to leave at safe points, with
//! the VM's lock.

use super::collected::Due;
use super::{PATIENCE, Python, api, doors};
use crate::counted::{Awaited, Counted};
use crate::counted_vm::{AskedVm, begins, begun};
use crate::entered::{Entered, Reached};
use crate::handed;
use crate::opening::Opening;
use hooks::ScriptStart;
use inject::Image;
use inject::seccomp::check_all_threads;
use inject::tracee::Tracee;
use languages::objects::Objects;
use languages::snapshot::Told;
use process::error::{Error, Result};
use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::Language;
use vm::python::Facts;
use wire::Request;
use wire::control_page::{CENSUS_COLLECT, CENSUS_RAN, CENSUS_TIME};

/// The number of attempts to find the lists of the collector, and the time between them.
const TRIES: u32 = 20;
const LOOK: Duration = Duration::from_millis(2);

/// A Python that contains the agent, which counts.
#[derive(Debug)]
pub(super) struct CountedPython {
    pub(super) python: Python,
    /// The collection that the VM is to run by itself before the next count.
    pub(super) due: Option<Due>,
}

/// Opens a process, and waits until its agent counts.
///
/// # Errors
/// It has no Python, or one whose births cannot be counted; it cannot be opened; or it did not come to a safe point in time.
pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Box<dyn Counted>> {
    // Any thread that has the VM's lock maps the agent's tables.
    check_all_threads(pid, &[])?;
    let facts = facts(&Reached::new(pid)?)?;
    let python = Python::open_for(pid, image, opening.config, true)?;
    let Entered {
        memory, resident, ..
    } = &python.entered;
    handed::facts(memory, resident, facts.to_words())?;
    (opening.claimed)(memory, resident)?;
    begun(CountedPython { python, due: None })
}

/// Opens a program that we started and that waits for us where its script begins: the hooks that brought it there are taken out, and
/// the agent begins there.
///
/// # Errors
/// Its births cannot be counted, or its memory cannot be read or written; its main thread is given back.
pub fn open_at_script(
    tracee: Tracee,
    start: ScriptStart,
    opening: Opening,
) -> std::result::Result<Box<dyn Counted>, (Tracee, Error)> {
    match handed_over(tracee.pid(), start, opening) {
        Ok(python) => Ok(begins(CountedPython { python, due: None }, tracee)),
        Err(error) => Err((tracee, error)),
    }
}

impl AskedVm for CountedPython {
    const LANGUAGE: Language = Language::Python;
    const FORKED: &'static str = "it was forked by a Python, whose births it does not count; those of the next program that it runs are counted";
    const ENDED: &'static str = "it ended without its exit functions (os._exit, a signal)";

    fn entered(&self) -> &Entered {
        &self.python.entered
    }

    fn entered_mut(&mut self) -> &mut Entered {
        &mut self.python.entered
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.python.tracee
    }

    fn version(&self) -> String {
        self.python.facts.version().to_string()
    }

    fn ask(&mut self, request: Request, argument: u64) -> Result<()> {
        self.python.ask(request, argument)
    }

    fn await_request(&mut self) -> Result<()> {
        self.python.await_answer(Instant::now() + PATIENCE)
    }

    fn why_not_done(request: Request) -> &'static str {
        match request {
            Request::Watch => {
                "another tool has changed the table of Python's allocators since a lancet was there: whether it calls the agent's functions, and with which addresses, cannot be told"
            }
            Request::Leave => {
                "another tool (tracemalloc, another lancet?) has put its functions in front of the agent's, or in their place: where they are still called they pass everything through"
            }
            _ => "the VM did not do what it was asked",
        }
    }

    /// The collection is the one that the VM was brought to run ([`prompt`](Self::prompt)), or else one that the agent has it run.
    fn census_argument(&mut self, collect: bool) -> u64 {
        let collected = self.collected().filter(|_| collect);
        let ran = collected.map_or(0, |took| {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            CENSUS_RAN | nanos.min(u64::MAX >> CENSUS_TIME) << CENSUS_TIME
        });
        let collect = if collect { CENSUS_COLLECT } else { 0 };
        collect | ran
    }

    fn take_back(&mut self) {
        self.write_back();
    }

    fn prompt(&mut self) -> bool {
        // A process that is gone is noticed when it is counted.
        self.raise_counts().unwrap_or(false)
    }

    fn awaits_collection(&mut self) -> Awaited {
        self.awaited()
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        self.python.facts.objects(&self.python.entered.memory)
    }
}

/// A program that we started and that waits where its script begins, with the agent that begins there.
fn handed_over(pid: i32, start: ScriptStart, opening: Opening) -> Result<Python> {
    check_all_threads(pid, &[])?;
    let reached = Reached::at_script(pid, &start)?;
    let (api, facts) = (api(pid, &reached)?, facts(&reached)?);
    let mut config = opening.config;
    config.language = Language::Python.number();
    let entered = reached.take_over(start, config, |memory, resident| {
        handed::functions(memory, resident, api)?;
        handed::facts(memory, resident, facts.to_words())?;
        (opening.claimed)(memory, resident)?;
        resident.request(memory, Request::Watch, 0)
    })?;
    Ok(Python {
        entered,
        api,
        facts,
        shut: Cell::new(None),
        tracee: None,
    })
}

/// What must be known of a Python whose births are counted. Without the lists of its collector no collection is asked for.
fn facts(reached: &Reached) -> Result<Facts> {
    let mut facts = doors::facts(reached)?;
    for _ in 0..TRIES {
        if facts.has_lists() && facts.own() != 0 {
            break;
        }
        sleep(LOOK);
        facts = doors::facts(reached)?;
    }
    if facts.own() == 0 {
        return Err(Error::NotAGuest {
            pid: reached.memory().pid(),
            reason: "its threads keep no pointer to their Python state where it is known (another C library than glibc?)",
        });
    }
    Ok(facts)
}
