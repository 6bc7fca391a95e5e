//! The process of which snapshots are made, whatever its language.

use crate::outside::Outside;
use enter::copied::Copied;
use enter::copy::Copy;
use enter::{Books, CopyablePython, Counting, Opening, Ruby, Timing};
use heap::Builder;
use inject::Image;
use languages::snapshot::births::Births;
use languages::snapshot::{Beside, Told};
use process::error::{Error, Result};
use std::time::Instant;
use vm::Language;
use wire::Purpose;

/// The process of which snapshots are made, entered as its language requires. Dropping this value leaves it.
#[derive(Debug)]
pub enum Guest {
    /// A Ruby, and how the books of its births are read, if they are counted.
    Ruby(Box<Ruby>, Option<Books>),
    /// A Python.
    Python(Box<CopyablePython>),
    /// A process whose VM is not called: a Perl or a PHP.
    Outside(Box<Outside>),
}

impl Guest {
    /// Opens a process to make a snapshot of it: of its Ruby, or else of another VM. With `counting` the births of a Ruby are counted from
    /// then on.
    ///
    /// # Errors
    /// The process has no VM, or cannot be opened, or not be copied.
    pub fn open(pid: i32, image: &Image, counting: Option<&Counting>) -> Result<Self> {
        let plain = Opening::plain(Purpose::Snapshot);
        let opening = counting.map_or(plain, |counting| counting.opening);
        match Ruby::open_to_copy(pid, image, opening) {
            Ok(ruby) => Ok(Guest::Ruby(
                Box::new(ruby),
                counting.map(|counting| counting.books),
            )),
            Err(Error::NotARuby { reason, .. }) => {
                if counting.is_some() {
                    return Err(Error::NotAGuest {
                        pid,
                        reason: "births are noted in Ruby alone: leave --births away",
                    });
                }
                if !CopyablePython::is_in(pid)? {
                    let outside = Outside::open(pid, image)?.ok_or_else(|| Error::NoHeap {
                        pid,
                        reason: format!("{reason}, and no Python, Perl or PHP"),
                    })?;
                    return Ok(Guest::Outside(Box::new(outside)));
                }
                let python = CopyablePython::open(pid, image)?;
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
            Guest::Ruby(ruby, _) => (Language::Ruby, ruby.ruby().version().to_string()),
            Guest::Python(python) => (Language::Python, python.facts().version().to_string()),
            Guest::Outside(outside) => outside.language(),
        }
    }

    /// For how many objects the heap of its copy has room, where the VM says so; it has so many bytes in memory.
    pub fn slots(&self, copy: &Copy, resident: u64) -> Option<u64> {
        match self {
            Guest::Ruby(ruby, _) => ruby.ruby().facts.slots(&copy.memory, resident),
            Guest::Python(python) => python.facts().slots(&copy.memory, resident),
            Guest::Outside(_) => None,
        }
    }

    /// Checks that births are still counted. A program that is about to make its first Ractor waits for this: it is let go, and the error says
    /// that births are no longer counted. No snapshot is made of it then, as its births from there on would have no line.
    ///
    /// # Errors
    /// Births are no longer counted, with the cause; or the process is gone.
    pub fn look(&mut self) -> Result<()> {
        let Guest::Ruby(ruby, _) = self else {
            return Ok(());
        };
        if ruby.awaits_last_count()? {
            // `mem` would count it from outside first. Here nobody asks for that count, and the program need not wait for it.
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
        match self {
            Guest::Ruby(ruby, books) => {
                let ledger = ruby.resident().header.ledger;
                let books = books.map(|open| open(&copy.memory, ledger));
                let births = books.transpose()?.zip(since);
                let births = births.map(|((sites, lines), since)| Births::new(sites, lines, since));
                let beside = Beside {
                    data: &ruby.ruby().data,
                    births,
                    until,
                };
                ruby.ruby().facts.of_copy(copy, beside, builder)
            }
            Guest::Python(python) => {
                let beside = Beside {
                    data: &[],
                    births: None,
                    until,
                };
                python.facts().of_copy(copy, beside, builder)
            }
            Guest::Outside(outside) => {
                let builder = outside.read(copy, builder, until)?;
                Ok((builder, 0))
            }
        }
    }

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    pub fn leave(self) -> Result<Timing> {
        match self {
            Guest::Ruby(mut ruby, _) => ruby.leave(),
            Guest::Python(python) => python.leave(),
            Guest::Outside(outside) => outside.leave(),
        }
    }
}
