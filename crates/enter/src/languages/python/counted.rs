//! A Python whose births are counted by the agent: what the agent is asked, and how it leaves.
//!
//! The agent puts functions of its own in front of the VM's allocators, so it is asked to begin, to count and to leave at safe points, with
//! the VM's lock. If it cannot be asked to leave, it is made quiet: its functions then pass everything through, and take themselves out.

use super::collected::Due;
use super::{PATIENCE, Python, api, doors};
use crate::counted::{Awaited, Counted};
use crate::entered::{Entered, Reached};
use crate::farewell;
use crate::handed;
use crate::opening::Opening;
use hooks::ScriptStart;
use inject::resident::Resident;
use inject::seccomp::check_all_threads;
use inject::tracee::Tracee;
use inject::{Image, Timing};
use languages::objects::Objects;
use languages::snapshot::Told;
use process::error::{Error, Result};
use process::guest::command_line;
use process::memory::GuestMemory;
use std::cell::Cell;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::Language;
use vm::python::Facts;
use wire::control_page::{CENSUS_COLLECT, CENSUS_RAN, CENSUS_TIME};
use wire::{ControlPage, Farewell, Reply, Request};

/// The number of attempts to find the lists of the collector, and the time between them.
const TRIES: u32 = 20;
const LOOK: Duration = Duration::from_millis(2);

/// A Python that is open: its agent counts, and requests to it are possible until it is left. Dropping this value leaves it.
#[derive(Debug)]
pub(super) struct CountedPython {
    pub(super) python: Python,
    command: Vec<String>,
    open: bool,
    /// Whether it was asked to begin, and nobody has waited for that.
    comes: bool,
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
    let mut counted = CountedPython::of(python);
    counted.ask(Request::Watch, 0, "count its births")?;
    Ok(Box::new(counted))
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
        Ok(mut python) => {
            python.tracee = Some(tracee);
            let mut counted = CountedPython::of(python);
            counted.comes = true;
            Ok(Box::new(counted))
        }
        Err(error) => Err((tracee, error)),
    }
}

impl CountedPython {
    fn of(python: Python) -> Self {
        CountedPython {
            command: command_line(python.entered.pid()),
            python,
            open: true,
            comes: false,
            due: None,
        }
    }

    /// Makes the agent do something, and fails if it did not.
    fn ask(&mut self, request: Request, argument: u64, what: &'static str) -> Result<()> {
        let pid = self.pid();
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        if std::mem::take(&mut self.comes) && request != Request::Leave {
            self.python.await_answer(Instant::now() + PATIENCE)?;
        }
        self.python.ask(request, argument)?;
        let reply = offset_of!(ControlPage, reply);
        let reply = self.resident().control_page_u32(self.memory(), reply)?;
        if reply == Reply::Done as u32 {
            return Ok(());
        }
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        let reason = match (request, reply) {
            (_, reply) if reply == Reply::NoMemory as u32 => {
                "it could not map memory for its books, which take a quarter of what its limits and the machine leave it"
            }
            (Request::Watch, _) => {
                "another tool has changed the table of Python's allocators since a lancet was there: whether it calls the agent's functions, and with which addresses, cannot be told"
            }
            (Request::Leave, _) => {
                "another tool (tracemalloc, another lancet?) has put its functions in front of the agent's, or in their place: where they are still called they pass everything through"
            }
            _ => "the VM did not do what it was asked",
        };
        Err(Error::Refused { pid, what, reason })
    }
}

impl Counted for CountedPython {
    fn language(&self) -> Language {
        Language::Python
    }

    fn prompt(&mut self) -> bool {
        // A process that is gone is noticed when it is counted.
        self.raise_counts().unwrap_or(false)
    }

    fn awaits_collection(&mut self) -> Awaited {
        self.awaited()
    }

    /// The collection is the one that the VM was brought to run ([`prompt`](Self::prompt)), or else one that the agent has it run.
    fn census(&mut self, collect: bool) -> Result<()> {
        let collected = self.collected().filter(|_| collect);
        let ran = collected.map_or(0, |took| {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            CENSUS_RAN | nanos.min(u64::MAX >> CENSUS_TIME) << CENSUS_TIME
        });
        let collect = if collect { CENSUS_COLLECT } else { 0 };
        self.ask(Request::Census, collect | ran, "count the living")
    }

    fn leave(&mut self) -> Result<Timing> {
        self.open = false;
        self.take_back();
        let asked = match self.farewell()? {
            // An agent that was made quiet, because it did not answer, does not answer this either.
            None if self.python.entered.is_quiet() => Ok(()),
            None => self.ask(Request::Leave, 0, "take the agent's functions out"),
            Some(_) => Ok(()),
        };
        let left = self.python.entered.leave();
        asked.and(left)
    }

    fn give_up(&mut self) {
        self.open = false;
        self.python.entered.give_up();
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn farewell(&self) -> Result<Option<&'static str>> {
        let all = [Farewell::Alone, Farewell::Broken, Farewell::Replaced];
        farewell::among(&all, self.resident(), self.memory())
    }

    fn is_alive(&self) -> bool {
        !self.python.entered.status.is_gone()
    }

    fn pid(&self) -> i32 {
        self.python.entered.pid()
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn version(&self) -> String {
        self.python.facts.version().to_string()
    }

    fn memory(&self) -> &GuestMemory {
        &self.python.entered.memory
    }

    fn resident(&self) -> &Resident {
        &self.python.entered.resident
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.python.tracee
    }

    fn timing(&self) -> Timing {
        self.python.entered.timing()
    }

    fn adopt(&self, pid: i32) -> Result<Box<dyn Counted>> {
        Err(Error::NotAGuest {
            pid,
            reason: "it was forked by a Python, whose births it does not count; those of the next program that it runs are counted",
        })
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        self.python.facts.objects(self.memory())
    }

    fn objects_at_end(&self) -> Result<Box<dyn Objects + '_>> {
        Err(Error::Refused {
            pid: self.pid(),
            what: "count what it held at its end",
            reason: "it ended without its exit functions (os._exit, a signal)",
        })
    }
}

impl Drop for CountedPython {
    fn drop(&mut self) {
        if self.open && self.is_alive() {
            // The error cannot be returned.
            let _ = self.leave();
        }
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
