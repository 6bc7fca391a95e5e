//! The interface of consumers of calls: lines, a table, a file. Used by `filter`, `in_function` and others here, and by
//! the crates `report` and `lancet`.

use crate::descriptors::Held;
use crate::event::Event;
use crate::source::Count;
use hooks::rings::Losses;
use std::io;
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

/// What a source knows when no more events come.
#[derive(Debug, Default)]
pub struct SourceEnd {
    /// What guests counted themselves instead of reporting each call.
    pub counted: Vec<Count>,
    /// What got lost in each process.
    pub losses: Vec<(i32, Losses)>,
    /// The descriptors of each process, if requested.
    pub descriptors: Vec<(i32, Held)>,
    /// Functions that could not be hooked, or not to the end, because their hooks cost more than they may.
    pub given_up: Vec<String>,
    /// The events come from a recording, which does not say what was given up.
    pub recorded: bool,
    /// How long the only process was watched; `None`: they are several, of which each has a time of its own, or none is watched now.
    pub watched: Option<Duration>,
}

/// Receives calls and returns in the order of time.
pub trait Consumer {
    /// Takes one event; an error means that it could not be written.
    fn take(&mut self, event: Event) -> io::Result<()>;

    /// Called when no event comes for a moment: what was received must become visible now, and not stay in a buffer.
    fn rest(&mut self) -> io::Result<()>;

    /// Called when no more events come.
    fn finish(&mut self, end: SourceEnd) -> io::Result<()>;

    /// Returns what was forgotten because there was too much of it.
    fn forgotten(&self) -> Forgotten;
}

/// What a consumer has forgotten, because there was too much of it: a guest may have any number of all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Calls that had not returned; their returns are not reported.
    pub open: u64,
    /// Calls that are counted in one common row, because there were too many rows.
    pub rows: u64,
    /// Statements and names with more events to come: they are counted as if they had ended, or were unknown.
    pub statements: u64,
    /// Allocations of which it is not known whether they were freed.
    pub allocations: u64,
}

impl Forgotten {
    /// For `open` calls that had not returned.
    pub fn open(open: u64) -> Self {
        Forgotten {
            open,
            ..Forgotten::default()
        }
    }

    /// Returns, of two consumers of the same events, the greater of each number.
    pub fn max(self, other: Forgotten) -> Self {
        Forgotten {
            open: self.open.max(other.open),
            rows: self.rows.max(other.rows),
            statements: self.statements.max(other.statements),
            allocations: self.allocations.max(other.allocations),
        }
    }
}

impl Add for Forgotten {
    type Output = Forgotten;

    fn add(self, other: Forgotten) -> Forgotten {
        Forgotten {
            open: self.open.saturating_add(other.open),
            rows: self.rows.saturating_add(other.rows),
            statements: self.statements.saturating_add(other.statements),
            allocations: self.allocations.saturating_add(other.allocations),
        }
    }
}

impl Sum for Forgotten {
    fn sum<I: Iterator<Item = Forgotten>>(all: I) -> Forgotten {
        all.fold(Forgotten::default(), Add::add)
    }
}
