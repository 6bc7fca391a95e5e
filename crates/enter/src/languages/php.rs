//! A PHP that is entered: to have its births counted (`counted`). Its heap is read from a copy that it makes wherever it stands
//! ([`crate::Entered::copy`]). Used by `php::counted`.
//!
//! A PHP without threads has one thread and no lock of its own. What it is asked calls nothing of it but what reads and writes single words
//! ([`vm::Door::GetHeap`]), so it is asked wherever it stands. Where it stands in the agent's own functions nothing is done, and it is asked again.

mod counted;
mod entry;

pub(crate) use entry::ENTRY;

use crate::entered::{Entered, Reached, poll};
use crate::handed;
use hooks::Threads;
use inject::doors::Open;
use inject::resident::Resident;
use inject::tracee::Tracee;
use process::asked::Wait;
use process::error::{Error, Result};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::php::api::NAMES;
use vm::php::{Facts, Requests};
use vm::{Door, Language};
use wire::Request;

/// Time after which a request that was not carried out is repeated, at first, and the longest such time.
const AGAIN: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// Time after which a request that was not carried out is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of words that lead to what a request begins and ends with.
const WORDS: usize = 3;

/// What is found of a PHP before it is entered.
#[derive(Clone, Copy, Debug)]
struct Found {
    facts: Facts,
    /// Addresses of the functions of [`NAMES`], and of the words of [`Requests`].
    table: [u64; NAMES.len() + WORDS],
    /// Address of `module_registry`, and what was found there.
    modules: (u64, Requests),
}

impl Found {
    /// Reads it while the process runs.
    fn of(reached: &Reached) -> Result<Self> {
        let memory: &GuestMemory = reached.memory();
        let pid = memory.pid();
        let refused = |reason: String| Error::NotEntered { pid, reason };
        let symbol = |name: &str| reached.functions.symbol(name);
        let mark = Language::Php.description().mark;
        let Some(modules) = symbol(mark) else {
            return Err(Error::UnreadableVm {
                pid,
                language: Language::Php,
                reason: "no PHP is loaded in it".into(),
            });
        };
        let facts = Facts::find(&memory, &symbol).map_err(|error| refused(error.to_string()))?;
        let shown = |name: &str| {
            symbol(name).ok_or_else(|| refused(format!("its PHP does not show its {name}")))
        };
        let registries = [modules, shown("sapi_module")?];
        let requests = Requests::find(&memory, registries, facts.version())
            .map_err(|error| refused(error.to_string()))?;
        let mut table = [0; NAMES.len() + WORDS];
        for (place, name) in table.iter_mut().zip(NAMES) {
            *place = shown(name)?;
        }
        let maps = Maps::of(pid).unwrap_or_default();
        let words = [requests.first, requests.last, requests.close];
        for (place, word) in words.into_iter().enumerate() {
            let is_data = maps.find(word).is_some_and(|area| area.permissions.write);
            if !is_data {
                return Err(refused(
                    "the records of its modules may not be written".into(),
                ));
            }
            table[NAMES.len() + place] = word;
        }
        Ok(Found {
            facts,
            table,
            modules: (modules, requests),
        })
    }

    /// Gives it to the agent.
    fn hand_over(&self, memory: &GuestMemory, resident: &Resident) -> Result<()> {
        handed::functions(memory, resident, self.table)?;
        handed::facts(memory, resident, self.facts.to_words())
    }
}

/// A PHP that contains the agent. Dropping this value leaves it.
#[derive(Debug)]
struct Php {
    entered: Entered,
    found: Found,
    /// Its main thread, if we trace it between stops too.
    tracee: Option<Tracee>,
}

impl Php {
    /// Makes the agent carry a request out.
    fn ask(&mut self, request: Request, argument: u64) -> Result<()> {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        resident.request(memory, request, argument)?;
        self.enter()?;
        self.await_answer()
    }

    /// Makes the main thread enter the agent where it stands, unless the VM has ended: what the agent would read and write is unmapped then.
    fn enter(&mut self) -> Result<()> {
        if let Some(tracee) = &mut self.tracee {
            poll(tracee)?;
        }
        let entry = self.entered.resident.header.enter;
        let pid = self.entered.pid();
        self.entered.stopped(Threads::Main, |_, remote| {
            if self.has_ended() {
                return Err(Error::NotEntered {
                    pid,
                    reason: "its PHP has ended, and the process is about to".into(),
                });
            }
            match Open::always(Door::GetHeap) {
                Some(open) => remote.enter(entry, open),
                None => Ok(()),
            }
        })
    }

    /// Whether the VM has ended: its modules are unloaded, and its heap is unmapped or will be.
    fn has_ended(&self) -> bool {
        let (registry, requests) = self.found.modules;
        !requests.stand(&*self.entered.memory, registry)
    }

    fn await_answer(&mut self) -> Result<()> {
        let pid = self.entered.pid();
        let [mut pause, most] = AGAIN;
        let mut wait = Wait::begin();
        let deadline = Instant::now() + PATIENCE;
        while !self.entered.resident.has_answered(&self.entered.memory)? {
            if Instant::now() > deadline || wait.is_over() {
                self.entered.go_quiet()?;
                return Err(Error::NoAnswer {
                    pid,
                    waited_ms: wait.lasts().as_millis() as u64,
                    reason: "whenever it was looked at, it was in the middle of a request and ran no PHP code (it compiles a file, or waits for the code that it is to run?), or its allocator has a layout that is not known".into(),
                });
            }
            sleep(pause);
            pause = (pause * 2).min(most);
            Status::read(pid)?.check_goes_on()?;
            self.enter()?;
        }
        Ok(())
    }
}
