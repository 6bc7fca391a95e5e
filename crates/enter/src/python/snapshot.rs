//! Makes a Python copy itself; its heap is read from the copy while it runs on ([`wire::snapshot`]).

use super::Python;
use crate::copied::{Asking, Copied};
use crate::entered::Reached;
use inject::Image;
use inject::seccomp::{OF_SNAPSHOT, check_all_threads};
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::Duration;
use vm::Language;
use vm::python::{self, Facts, Version};
use wire::{Request, Snapshot};

/// The number of attempts to read the facts, and the time between them.
const TRIES: u32 = 50;
const LOOK: Duration = Duration::from_millis(2);
/// From this version on an interpreter may have a lock of its own (PEP 684), which does not stop the other interpreters.
const OWN_LOCKS: Version = Version::new(3, 12, 0);

impl Python {
    /// Opens a process to make a snapshot of it.
    ///
    /// # Errors
    /// As of [`open`](Python::open); also that its seccomp filter does not allow a copy, its version is not known, or it has
    /// several interpreters with locks of their own.
    pub fn open_for_snapshot(pid: i32, image: &Image) -> Result<Self> {
        check_all_threads(pid, &OF_SNAPSHOT)?;
        let mut python = Python::open(pid, image)?;
        python.heap_facts = python.find_heap_facts()?;
        Ok(python)
    }

    /// The facts that the reader of its heap needs, if it was opened for a snapshot.
    pub fn heap_facts(&self) -> Facts {
        self.heap_facts
    }

    /// Whether a Python is loaded in a process, as far as its symbols tell.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn is_in(pid: i32) -> Result<bool> {
        let mark = Language::Python.description().mark;
        Ok(Reached::new(pid)?.functions.symbol(mark).is_some())
    }

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

    /// Makes the Python copy itself; the copy reports its heap.
    ///
    /// # Errors
    /// The kernel refused the copy, or the process did not reach a safe point.
    pub fn copy(&mut self) -> Result<Copied> {
        let facts = self.heap_facts;
        let asking = Asking {
            pid: self.entered.status.pid,
            at: self.entered.resident.header.snapshot,
            memory: self.entered.memory.clone(),
        };
        let words: Vec<u8> = facts
            .to_words()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let at = asking.at + offset_of!(Snapshot, facts) as u64;
        self.entered.memory.write(at, &words)?;
        self.entered.has_copy.set(true);
        asking.copy(|| {
            self.ask(Request::Snapshot)?;
            self.entered.has_copied()
        })
    }
}
