//! Brings a Python to collect its garbage by itself, where its main thread waits in a call and so cannot be made to.
//!
//! The counts by which the VM decides when it collects, and what, are raised, so that some objects later it collects all garbage, on the thread
//! that makes them and where one of its own collections may come ([`vm::python::Automatic`]). That collection sets the counts back. Where no
//! thread makes objects none comes, and the counts are written back. They are words that the VM counts in all the time: what is written while
//! it does may be lost, or count what was counted before; a collection then comes earlier or later, and nothing else.

use super::counted::CountedPython;
use crate::counted::Counted;
use process::error::Result;
use process::guest::Status;
use process::memory::GuestMemory;
use std::time::{Duration, Instant};
use vm::python;
use vm::python::{Automatic, Counts};

/// A collection that the VM is to run by itself.
#[derive(Debug)]
pub(super) struct Due {
    automatic: Automatic,
    before: Counts,
    written: Counts,
    /// When it was last seen not to collect.
    idle: Instant,
    /// How long it took, once it has run.
    took: Option<Duration>,
}

impl CountedPython {
    /// Has the VM collect soon, if its main thread waits and the program has not kept the VM from collecting. Returns whether that is to be
    /// waited for, by [`collection_is_due`](Self::collection_is_due).
    ///
    /// # Errors
    /// The guest is gone.
    pub(super) fn raise_counts(&mut self) -> Result<bool> {
        self.due = None;
        if Status::read(self.pid())?.state == 'R' {
            return Ok(false);
        }
        let found = self.counts_due();
        let Some((automatic, before, written)) = found.unwrap_or(None) else {
            return Ok(false);
        };
        automatic.each_word(written, |at, bytes| self.memory().write(at, bytes))?;
        self.due = Some(Due {
            automatic,
            before,
            written,
            idle: Instant::now(),
            took: None,
        });
        Ok(true)
    }

    /// Where the VM counts, what stands there, and what is to.
    fn counts_due(
        &self,
    ) -> std::result::Result<Option<(Automatic, Counts, Counts)>, python::Error> {
        let memory: &GuestMemory = self.memory();
        let python = python::Python::new(&memory, self.python.facts)?;
        if python.is_collector_on()? != Some(true) || python.is_collecting()? {
            return Ok(None);
        }
        let Some(automatic) = python.automatic()? else {
            return Ok(None);
        };
        let now = automatic.counts(&memory)?;
        let due = automatic.due(&memory, now)?;
        Ok(due.map(|due| (automatic, now, due)))
    }

    /// Whether the collection is still to come, or to end.
    pub(super) fn collection_is_due(&mut self) -> bool {
        let Some(mut due) = self.due.take() else {
            return false;
        };
        let looked = Instant::now();
        // What cannot be read is not waited for.
        let Ok((is_collecting, now)) = self.look_at(&due) else {
            return false;
        };
        if !is_collecting && due.written.are_spent(now) {
            due.took = Some(due.idle.elapsed());
        } else if !is_collecting {
            due.idle = looked;
        }
        let waits = due.took.is_none();
        self.due = Some(due);
        waits
    }

    fn look_at(&self, due: &Due) -> std::result::Result<(bool, Counts), python::Error> {
        let memory: &GuestMemory = self.memory();
        let python = python::Python::new(&memory, self.python.facts)?;
        // In this order: one that ends in between is seen at the next look.
        let now = due.automatic.counts(&memory)?;
        Ok((python.is_collecting()?, now))
    }

    /// Returns how long the collection took, if it has come. Otherwise the counts are as they would be without it.
    pub(super) fn collected(&mut self) -> Option<Duration> {
        self.collection_is_due();
        let due = self.due.take()?;
        if due.took.is_some() {
            return due.took;
        }
        let memory: &GuestMemory = self.memory();
        if let Ok(now) = due.automatic.counts(&memory) {
            let counts = due.before.without(due.written, now);
            // A guest that is gone is noticed when it is asked.
            let _ = due
                .automatic
                .each_word(counts, |at, bytes| memory.write(at, bytes));
        }
        None
    }
}
