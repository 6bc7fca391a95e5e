//! The process of which snapshots are made, whatever its language.

use crate::outside::Outside;
use enter::copied::Copied;
use enter::copy::Copy;
use enter::{Counting, Python, Timing, VmSession};
use heap::Builder;
use inject::Image;
use languages::snapshot::Heap;
use languages::snapshot::births::Births;
use languages::snapshot::found::Found;
use process::error::{Error, Result};
use std::time::Instant;
use vm::Language;

/// The process of which snapshots are made, entered as its language requires. Dropping this value leaves it.
#[derive(Debug)]
pub enum Guest {
    /// A Ruby, and how its births are counted, if they are.
    Ruby(Box<VmSession>, Option<Counting>),
    /// A Python.
    Python(Box<Python>),
    /// A process whose VM is not called: a Perl or a PHP.
    Outside(Box<Outside>),
}

impl Guest {
    /// Opens a process to make a snapshot of it: of its Ruby, or else of another VM. With `counting` the births of a Ruby are counted from
    /// then on.
    ///
    /// # Errors
    /// The process has no VM, or cannot be opened, or not be copied.
    pub fn open(pid: i32, image: &Image, counting: Option<Counting>) -> Result<Self> {
        let opened = match counting {
            Some(counting) => (counting.open)(pid, image),
            None => VmSession::open_for_snapshot(pid, image),
        };
        match opened {
            Ok(ruby) => Ok(Guest::Ruby(Box::new(ruby), counting)),
            Err(Error::NotARuby { reason, .. }) => {
                if counting.is_some() {
                    return Err(Error::NotAGuest {
                        pid,
                        reason: "births are noted in Ruby alone: leave --births away",
                    });
                }
                if !Python::is_in(pid)? {
                    let outside = Outside::open(pid, image)?.ok_or_else(|| Error::NoHeap {
                        pid,
                        reason: format!("{reason}, and no Python, Perl or PHP"),
                    })?;
                    return Ok(Guest::Outside(Box::new(outside)));
                }
                let python = Python::open_for_snapshot(pid, image)?;
                Ok(Guest::Python(Box::new(python)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the process id of the guest, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        match self {
            Guest::Ruby(ruby, _) => ruby.pid(),
            Guest::Python(python) => python.pid(),
            Guest::Outside(outside) => outside.pid(),
        }
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        match self {
            Guest::Ruby(ruby, _) => (Language::Ruby, ruby.found().version().to_string()),
            Guest::Python(python) => (Language::Python, python.heap_facts().version().to_string()),
            Guest::Outside(outside) => outside.language(),
        }
    }

    /// Checks that births are still counted. A program that is about to make its first Ractor waits for this.
    ///
    /// # Errors
    /// Births are no longer counted, with the cause; or the process is gone.
    pub fn look(&mut self) -> Result<()> {
        let Guest::Ruby(ruby, _) = self else {
            return Ok(());
        };
        if ruby.awaits_last_count()? {
            // The snapshot of a process that has ended would have no references.
            ruby.let_go()?;
        }
        match ruby.farewell()? {
            Some(why) => Err(Error::Left {
                pid: ruby.pid(),
                why,
            }),
            None => Ok(()),
        }
    }

    /// Makes the process copy itself.
    ///
    /// # Errors
    /// The kernel refused the copy, or the process did not reach a safe point.
    pub fn copy(&mut self) -> Result<Copied> {
        match self {
            Guest::Ruby(ruby, _) => ruby.copy(),
            Guest::Python(python) => python.copy(),
            Guest::Outside(outside) => outside.copy(),
        }
    }

    /// Reads everything from the copy; returns the builder and how many objects were left out as garbage. `since` is when births have
    /// been counted from, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The copy ended too early, hung, or wrote what makes no sense.
    pub fn read(
        &self,
        copy: &Copy,
        builder: Builder,
        since: Option<u64>,
        until: Instant,
    ) -> Result<(Builder, u64)> {
        let found = Found {
            memory: &copy.memory,
            symbol: &|_| None,
            threads: &[],
            data: &[],
            stacks: &[],
            bytes: 0,
            until,
        };
        match self {
            Guest::Ruby(ruby, counting) => {
                let ledger = ruby.resident().header.ledger;
                let lines = counting.map(|counting| (counting.lines)(&copy.memory, ledger));
                let births = lines.transpose()?.zip(since);
                let births = births.map(|(lines, since)| Births::new(lines, since));
                let data = &ruby.found().data;
                let found = Found { data, ..found };
                let facts = &ruby.found().facts;
                facts.of_copy(copy, &found, builder, births)
            }
            Guest::Python(python) => python.heap_facts().of_copy(copy, &found, builder, None),
            Guest::Outside(outside) => outside.read(copy, builder, until),
        }
    }

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    pub fn leave(self) -> Result<Timing> {
        match self {
            Guest::Ruby(ruby, _) => ruby.leave(),
            Guest::Python(python) => python.leave(),
            Guest::Outside(outside) => outside.leave(),
        }
    }
}
