//! Makes a Python copy itself; its heap is read from the copy while it runs on ([`wire::snapshot`]). Used by `entry`.

use super::Python;
use crate::copied::{Asking, Copied};
use crate::copyable::Copyable;
use crate::handed;
use crate::opening::Opening;
use inject::seccomp::{OF_SNAPSHOT, check_all_threads};
use inject::{Image, Timing};
use languages::snapshot::Told;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::thread::sleep;
use std::time::Duration;
use vm::Language;
use vm::python::{self, Facts, Version};
use wire::Request;

/// The number of attempts to read the facts, and the time between them.
const TRIES: u32 = 50;
const LOOK: Duration = Duration::from_millis(2);
/// From this version on an interpreter may have a lock of its own (PEP 684), which does not stop the other interpreters.
const OWN_LOCKS: Version = Version::new(3, 12, 0);

/// A Python that may be copied.
#[derive(Debug)]
struct CopyablePython {
    python: Python,
    facts: Facts,
}

/// Opens a process to make a snapshot of it.
///
/// # Errors
/// It has no Python, or cannot be opened; its seccomp filter does not allow a copy; its version is not known; or it has several
/// interpreters with locks of their own.
pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Box<dyn Copyable>> {
    check_all_threads(pid, &OF_SNAPSHOT)?;
    let python = Python::open_for(pid, image, opening.config, false)?;
    let facts = python.find_heap_facts()?;
    Ok(Box::new(CopyablePython { python, facts }))
}

impl Copyable for CopyablePython {
    fn language(&self) -> Language {
        Language::Python
    }

    fn pid(&self) -> i32 {
        self.python.entered.status.pid
    }

    fn heap(&self) -> &dyn Told {
        &self.facts
    }

    fn ledger(&self) -> u64 {
        self.python.entered.resident.header.ledger
    }

    fn copy(&mut self) -> Result<Copied> {
        let facts = self.facts;
        let python = &mut self.python;
        let asking = Asking {
            pid: python.entered.status.pid,
            at: python.entered.resident.header.snapshot,
            memory: python.entered.memory.clone(),
        };
        handed::facts(
            &python.entered.memory,
            &python.entered.resident,
            facts.to_words(),
        )?;
        python.entered.has_copy.set(true);
        asking.copy(|| {
            python.ask(Request::Snapshot, 0)?;
            python.entered.has_copied()
        })
    }

    fn leave(self: Box<Self>) -> Result<Timing> {
        self.python.entered.leave()
    }
}

impl Python {
    /// Reads the facts that the reader of its heap needs.
    ///
    /// # Errors
    /// This Python is not known, or several interpreters run.
    fn find_heap_facts(&self) -> Result<Facts> {
        let refused = |reason: String| Error::NoCopy {
            pid: self.entered.status.pid,
            reason,
        };
        let unreadable = |error: python::Error| refused(error.to_string());
        let memory: &GuestMemory = &self.entered.memory;
        let symbol = |name: &str| self.entered.functions.symbol(name);
        // The process runs, so data may change while it is read; then it is read again.
        let mut tries = 0;
        let facts = loop {
            match Facts::find(&memory, &symbol) {
                Ok(facts) if facts.has_lists() => break facts,
                Err(error) if tries == TRIES => return Err(unreadable(error)),
                Ok(_) if tries == TRIES => {
                    return Err(refused(
                        "the lists of its garbage collector were not found".into(),
                    ));
                }
                _ => sleep(LOOK),
            }
            tries += 1;
        };
        let python = python::Python::new(&memory, facts).map_err(unreadable)?;
        if facts.version() >= OWN_LOCKS && python.interpreters().count() > 1 {
            return Err(refused("it runs several interpreters, which since Python 3.12 may have locks of their own: there is no moment at which we know that all of them stand at a safe point".into()));
        }
        Ok(facts)
    }
}
