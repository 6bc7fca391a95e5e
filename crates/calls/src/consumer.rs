//! What becomes of calls: lines, a table, a file.

use crate::descriptors::Held;
use crate::event::Event;
use crate::source::Count;
use hooks::rings::Losses;
use std::io;
use std::iter::Sum;
use std::ops::Add;

/// What is known when no event comes any more.
#[derive(Debug, Default)]
pub struct End {
    /// What was counted where it happened, instead of being reported.
    pub counted: Vec<Count>,
    /// What got lost in each process.
    pub losses: Vec<(i32, Losses)>,
    /// The descriptors of each process, if they were asked for.
    pub descriptors: Vec<(i32, Held)>,
}

/// Takes calls and returns in the order of time.
pub trait Consumer {
    /// Takes one event; an error means that it could not be written.
    fn take(&mut self, event: Event) -> io::Result<()>;

    /// Is told that no event comes for a moment: what was taken must be visible now, and not stay in a buffer.
    fn rest(&mut self) -> io::Result<()>;

    /// Is told that no event comes any more.
    fn finish(&mut self, end: End) -> io::Result<()>;

    /// What was forgotten because there was too much of it.
    fn forgotten(&self) -> Forgotten;
}

/// What a consumer has forgotten, because there was too much of it: a guest may have any number of all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Calls that had not returned; that they did is not told.
    pub open: u64,
    /// Calls that are counted in one row, because there were as many rows as are kept.
    pub rows: u64,
    /// Statements and names of which something may still come: they are counted as if they had ended, or were not known.
    pub statements: u64,
}

impl Forgotten {
    /// Of calls that had not returned, so many.
    pub fn open(open: u64) -> Self {
        Forgotten {
            open,
            ..Forgotten::default()
        }
    }

    /// Of two consumers of the same events the greater number of each.
    pub fn max(self, other: Forgotten) -> Self {
        Forgotten {
            open: self.open.max(other.open),
            rows: self.rows.max(other.rows),
            statements: self.statements.max(other.statements),
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
        }
    }
}

impl Sum for Forgotten {
    fn sum<I: Iterator<Item = Forgotten>>(all: I) -> Forgotten {
        all.fold(Forgotten::default(), Add::add)
    }
}
