//! A process whose VM is not called: it is copied wherever it stands, and its heap is read from the copy's memory alone.
//!
//! No safe point is awaited, because neither Perl nor PHP has a function that lets another thread request one. So the copy may be in the
//! middle of a change: a list that is half linked, a block that is being moved. What cannot be read for this reason is counted and
//! reported.

use crate::copy::{Copy, lost};
use crate::found::Found;
use crate::{perl, php};
use enter::copied::Copied;
use enter::{Entered, Reached, Timing};
use heap::Builder;
use inject::Image;
use inject::seccomp::{OF_SNAPSHOT, check_all_threads};
use process::error::{Error, Result};
use process::rss::Resident;
use std::time::Instant;
use vm::Language;

/// A Perl or a PHP that contains the agent, and the facts that the reader of its heap needs. Dropping this value leaves it.
#[derive(Debug)]
pub struct Outside {
    entered: Entered,
    heap: Heap,
}

/// The language of a heap, and the facts that the reader of its memory needs.
#[derive(Clone, Copy, Debug)]
pub enum Heap {
    Perl(vm::perl::Facts),
    Php(vm::php::Facts),
}

impl Heap {
    /// Finds the heap of a process; `None` if it has no VM that is read in this way.
    pub fn find(
        memory: &impl vm::Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Option<std::result::Result<Heap, String>> {
        let has = |language: Language| symbol(language.description().mark).is_some();
        if has(Language::Perl) {
            let facts = vm::perl::Facts::find(memory, symbol);
            return Some(facts.map(Heap::Perl).map_err(|error| error.to_string()));
        }
        if has(Language::Php) {
            let facts = vm::php::Facts::find(memory, symbol);
            return Some(facts.map(Heap::Php).map_err(|error| error.to_string()));
        }
        None
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        match self {
            Heap::Perl(facts) => (Language::Perl, facts.version().to_string()),
            Heap::Php(facts) => (Language::Php, facts.version().to_string()),
        }
    }

    /// Adds every object of the copy, its references and its roots to `builder`, from the copy's memory alone.
    ///
    /// # Errors
    /// The heap cannot be read, or it took too long.
    pub fn read(&self, found: &Found, builder: Builder) -> std::result::Result<Builder, String> {
        match self {
            Heap::Perl(facts) => perl::read(found, *facts, builder),
            Heap::Php(facts) => php::read(found, *facts, builder),
        }
    }
}

impl Outside {
    /// Opens a process; `None` if it has no VM that is read in this way.
    ///
    /// # Errors
    /// The process cannot be opened or copied, or this version's heap is not known.
    pub fn open(pid: i32, image: &Image) -> Result<Option<Self>> {
        let reached = Reached::new(pid)?;
        let symbol = |name: &str| reached.functions.symbol(name);
        let Some(found) = Heap::find(reached.memory(), &symbol) else {
            return Ok(None);
        };
        let heap = found.map_err(|reason| Error::NoCopy { pid, reason })?;
        check_all_threads(pid, &OF_SNAPSHOT)?;
        Ok(Some(Outside {
            entered: reached.enter(image)?,
            heap,
        }))
    }

    /// Returns the process id of the guest, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.entered.pid()
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        self.heap.language()
    }

    /// Makes the process copy itself.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn copy(&mut self) -> Result<Copied> {
        self.entered.copy()
    }

    /// Reads the heap from the copy.
    ///
    /// # Errors
    /// The heap cannot be read.
    pub fn read(&self, copy: &Copy, builder: Builder, until: Instant) -> Result<Builder> {
        let pid = copy.parent();
        let resident = Resident::of(pid).map_err(|error| Error::of_proc(pid, "status", error))?;
        let symbol = |name: &str| self.entered.functions().symbol(name);
        let found = Found {
            memory: &copy.memory,
            symbol: &symbol,
            threads: self.entered.threads(),
            bytes: resident.memory.saturating_add(resident.swap),
            until,
        };
        let read = self.heap.read(&found, builder);
        read.map_err(|reason| lost(pid, &reason))
    }

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    pub fn leave(self) -> Result<Timing> {
        self.entered.leave()
    }
}
