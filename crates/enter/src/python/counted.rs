//! A Python whose births are counted by the agent: what the agent is asked, and how it leaves.
//!
//! The agent puts functions of its own in front of the VM's allocators, so it is asked to begin, to count and to leave at safe points, with
//! the VM's lock. If it cannot be asked to leave, it is made quiet: its functions then pass everything through, and take themselves out.

use super::{PATIENCE, Python, api, doors, hand_over_api, hand_over_facts};
use crate::entered::{Entered, Reached};
use crate::ruby::because;
use hooks::ScriptStart;
use inject::resident::Resident;
use inject::seccomp::check_all_threads;
use inject::tracee::Tracee;
use inject::{Image, Timing};
use process::error::{Error, Result};
use process::guest::command_line;
use process::memory::GuestMemory;
use std::cell::Cell;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::Language;
use vm::python::Facts;
use wire::{Config, ControlPage, Farewell, Reply, Request};

/// The number of attempts to find the lists of the collector, and the time between them.
const TRIES: u32 = 20;
const LOOK: Duration = Duration::from_millis(2);

/// A Python that is open: its agent counts, and requests to it are possible until it is left. Dropping this value leaves it.
#[derive(Debug)]
pub struct CountedPython {
    python: Python,
    command: Vec<String>,
    open: bool,
    /// Whether it was asked to begin, and nobody has waited for that.
    comes: bool,
}

impl CountedPython {
    /// Whether a Python is loaded in a process, as far as its symbols tell.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn is_in(pid: i32) -> Result<bool> {
        let mark = Language::Python.description().mark;
        Ok(Reached::new(pid)?.functions.symbol(mark).is_some())
    }

    /// Opens a process, and waits until its agent counts. `claimed` is called before that, when the agent is there.
    ///
    /// # Errors
    /// It has no Python, or one whose births cannot be counted; it cannot be opened; or it did not come to a safe point in time.
    pub fn open(
        pid: i32,
        image: &Image,
        wanted: Config,
        claimed: impl FnOnce(&GuestMemory, &Resident) -> Result<()>,
    ) -> Result<Self> {
        // Any thread that has the VM's lock maps the agent's tables.
        check_all_threads(pid, &[])?;
        let facts = facts(&Reached::new(pid)?)?;
        let python = Python::open_for(pid, image, wanted, true)?;
        let Entered {
            memory, resident, ..
        } = &python.entered;
        hand_over_facts(memory, resident, facts)?;
        claimed(memory, resident)?;
        let mut counted = CountedPython::of(python);
        counted.ask(Request::Watch, 0, "count its births")?;
        Ok(counted)
    }

    /// Opens a program that we started and that waits for us where its script begins: the hooks that brought it there are taken out, and
    /// the agent begins there.
    ///
    /// # Errors
    /// Its births cannot be counted, or its memory cannot be read or written; its main thread is given back.
    pub fn at_script(
        tracee: Tracee,
        start: ScriptStart,
        wanted: Config,
        claimed: impl Fn(&GuestMemory, &Resident) -> Result<()>,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        match handed_over(tracee.pid(), start, wanted, claimed) {
            Ok(mut python) => {
                python.tracee = Some(tracee);
                let mut counted = CountedPython::of(python);
                counted.comes = true;
                Ok(counted)
            }
            Err(error) => Err((tracee, error)),
        }
    }

    fn of(python: Python) -> Self {
        CountedPython {
            command: command_line(python.entered.pid()),
            python,
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
                "it could not map memory for its books"
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

    /// Has the agent count the living blocks, after a garbage collection if `collect` is set.
    ///
    /// # Errors
    /// The guest did not come to a safe point in time, or its agent has left.
    pub fn census(&mut self, collect: bool) -> Result<()> {
        self.ask(Request::Census, u64::from(collect), "count the living")
    }

    /// Takes the agent's functions out and unmaps its books; the value stays. Returns for how long the guest was stopped in all.
    ///
    /// # Errors
    /// The guest was not entered in time, or another tool keeps the agent's functions; the agent is quiet all the same.
    pub fn leave(&mut self) -> Result<Timing> {
        self.open = false;
        let asked = match self.farewell()? {
            // An agent that was made quiet, because it did not answer, does not answer this either.
            None if self.python.entered.is_quiet() => Ok(()),
            None => self.ask(Request::Leave, 0, "take the agent's functions out"),
            Some(_) => Ok(()),
        };
        let left = self.python.entered.leave();
        asked.and(left)
    }

    /// Notes that the guest can no longer be asked: it has ended, or runs another program, or its agent has left.
    pub fn give_up(&mut self) {
        self.open = false;
        self.python.entered.give_up();
    }

    /// Whether it can be asked.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns why the agent has left by itself, if it has.
    ///
    /// # Errors
    /// The control page cannot be read.
    pub fn farewell(&self) -> Result<Option<&'static str>> {
        let deserted = offset_of!(ControlPage, deserted);
        let why = self.resident().control_page_u32(self.memory(), deserted)?;
        let all = [Farewell::Alone, Farewell::Broken, Farewell::Replaced];
        let found = all.into_iter().find(|farewell| *farewell as u32 == why);
        Ok(found.map(because))
    }

    /// Whether the guest still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        !self.python.entered.status.is_gone()
    }

    /// The guest's process id, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.python.entered.pid()
    }

    /// The guest's command line, as it was when it was opened.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// The version of its Python.
    pub fn version(&self) -> String {
        self.python.facts.version().to_string()
    }

    /// The memory of the guest, read and written through `/proc/PID/mem`.
    pub fn memory(&self) -> &GuestMemory {
        &self.python.entered.memory
    }

    /// Where its agent is.
    pub fn resident(&self) -> &Resident {
        &self.python.entered.resident
    }

    /// Its main thread, if we trace it between stops too.
    pub fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.python.tracee
    }

    /// Returns the times of all stops so far.
    pub fn timing(&self) -> Timing {
        self.python.entered.timing()
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
fn handed_over(
    pid: i32,
    start: ScriptStart,
    wanted: Config,
    claimed: impl Fn(&GuestMemory, &Resident) -> Result<()>,
) -> Result<Python> {
    check_all_threads(pid, &[])?;
    let reached = Reached::at_script(pid, &start)?;
    let (api, facts) = (api(pid, &reached)?, facts(&reached)?);
    let mut config = wanted;
    config.python = 1;
    let entered = reached.take_over(start, config, |memory, resident| {
        hand_over_api(memory, resident, &api)?;
        hand_over_facts(memory, resident, facts)?;
        claimed(memory, resident)?;
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
