//! The process of which snapshots are made, whatever its language.

use crate::copy::Copy;
use crate::outside::Outside;
use crate::{python, ruby};
use births::Session;
use births::session::{Copied, Timing};
use eval::Python;
use heap::Builder;
use inject::Image;
use process::error::{Error, Result};
use std::time::Instant;
use vm::Language;
use vm::python::Facts;

/// The process of which snapshots are made, entered as its language requires. Dropping this value leaves it.
#[derive(Debug)]
pub enum Guest {
    /// A Ruby, entered by a session that also counts births if requested.
    Ruby(Box<Session>),
    /// A Python, and the facts that the reader of its memory needs.
    Python(Box<Python>, Facts),
    /// A process whose VM is not called: a Perl or a PHP.
    Outside(Box<Outside>),
}

impl Guest {
    /// Opens a process to make a snapshot of it: of its Ruby, or else of another VM. With `births` those of a Ruby are counted from
    /// then on.
    ///
    /// # Errors
    /// The process has no VM, or cannot be opened, or not be copied.
    pub fn open(pid: i32, image: &Image, births: bool) -> Result<Self> {
        match Session::open_for_snapshot(pid, image, births) {
            Ok(session) => Ok(Guest::Ruby(Box::new(session))),
            Err(Error::NotARuby { reason, .. }) => {
                if births {
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
                let facts = python.facts()?;
                Ok(Guest::Python(Box::new(python), facts))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the process id of the guest, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        match self {
            Guest::Ruby(session) => session.pid(),
            Guest::Python(python, _) => python.pid(),
            Guest::Outside(outside) => outside.pid(),
        }
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        match self {
            Guest::Ruby(session) => (Language::Ruby, session.ruby().version().to_string()),
            Guest::Python(_, facts) => (Language::Python, facts.version().to_string()),
            Guest::Outside(outside) => outside.language(),
        }
    }

    /// For how many objects the heap of its copy has room, where the VM says so; it has so many bytes in memory.
    pub fn slots(&self, copy: &Copy, resident: u64) -> Option<u64> {
        match self {
            Guest::Ruby(session) => ruby::room(&copy.memory, session.ruby(), resident),
            Guest::Python(..) | Guest::Outside(_) => None,
        }
    }

    /// Checks that births are still counted. A program that is about to make its first Ractor waits for this.
    ///
    /// # Errors
    /// Births are no longer counted, with the cause; or the process is gone.
    pub fn look(&mut self) -> Result<()> {
        let Guest::Ruby(session) = self else {
            return Ok(());
        };
        let why = match session.awaits_last_count()? {
            // The snapshot of a process that has ended would have no references.
            true => session.last_words().err(),
            false => None,
        };
        match (why, session.farewell()?) {
            (Some(why), _) => Err(why),
            (None, Some(why)) => Err(Error::Left {
                pid: session.pid(),
                why,
            }),
            (None, None) => Ok(()),
        }
    }

    /// Makes the process copy itself.
    ///
    /// # Errors
    /// The kernel refused the copy, or the process did not reach a safe point.
    pub fn copy(&mut self) -> Result<Copied> {
        match self {
            Guest::Ruby(session) => session.copy(),
            Guest::Python(python, facts) => python.copy(*facts),
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
            Guest::Ruby(session) => {
                let lines = session.lines_in(&copy.memory)?;
                let births = lines.zip(since);
                let births = births.map(|(lines, since)| ruby::Births::new(lines, since));
                ruby::read(copy, session.ruby(), builder, births, until)
            }
            // The copy contains all garbage; it is recognized because nothing refers to it.
            Guest::Python(_, facts) => {
                python::read(copy, *facts, builder, until).map(|builder| (builder, 0))
            }
            Guest::Outside(outside) => {
                let read = outside.read(copy, builder, until);
                read.map(|builder| (builder, 0))
            }
        }
    }

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    pub fn leave(self) -> Result<Timing> {
        match self {
            Guest::Ruby(session) => session.leave(),
            Guest::Python(python, _) => python.leave(),
            Guest::Outside(outside) => outside.leave(),
        }
    }
}
