//! A process whose VM is not called: it is copied wherever it stands, and its heap is read from the copy's memory alone.
//! Used by `guest`.
//!
//! No safe point is awaited, because these VMs (Perl, PHP) have no function that lets another thread request one. So the copy may be in the
//! middle of a change: a list that is half linked, a block that is being moved. What cannot be read for this reason is counted and
//! reported.

use enter::copied::Copied;
use enter::copy::Copy;
use enter::{Entered, Reached, Timing};
use heap::Builder;
use inject::Image;
use inject::seccomp::{OF_SNAPSHOT, check_all_threads};
use languages::snapshot::copied::{CopiedProcess, lost};
use languages::snapshot::heap_source::HeapSource;
use languages::snapshot::{FindHeap, ReadAlone};
use process::error::{Error, Result};
use process::rss::Resident;
use std::time::Instant;
use vm::Language;

/// A process that contains the agent, and the facts that the reader of its heap needs. Dropping this value leaves it.
#[derive(Debug)]
pub struct Outside {
    entered: Entered,
    language: Language,
    heap: Box<dyn ReadAlone>,
}

impl Outside {
    /// Opens a process; `None` if it has no VM that is read in this way.
    ///
    /// # Errors
    /// The process cannot be opened or copied, or this version's heap is not known.
    pub fn open(pid: i32, image: &Image) -> Result<Option<Self>> {
        let reached = Reached::new(pid)?;
        let symbol = |name: &str| reached.functions.symbol(name);
        let is_there = |language: Language| symbol(language.description().mark).is_some();
        let mut entries = languages::ALL.iter().filter_map(|entry| match entry.heap {
            FindHeap::ReadAlone(find) => Some((entry.language, find)),
            FindHeap::Told(_) => None,
        });
        let Some((language, find)) = entries.find(|(language, _)| is_there(*language)) else {
            return Ok(None);
        };
        let heap = find(reached.memory(), &symbol);
        let heap = heap.map_err(|reason| Error::NoCopy { pid, reason })?;
        check_all_threads(pid, &OF_SNAPSHOT)?;
        Ok(Some(Outside {
            entered: reached.enter(image)?,
            language,
            heap,
        }))
    }

    /// Returns the process id of the guest, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.entered.pid()
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        (self.language, self.heap.vm_version())
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
        let found = HeapSource {
            memory: &copy.memory,
            symbol: &symbol,
            threads: self.entered.threads(),
            data: &[],
            stacks: &[],
            bytes: resident.memory.saturating_add(resident.swap),
            until,
        };
        let read = self.heap.of_memory(&found, builder);
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
