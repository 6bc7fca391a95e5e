//! What becomes of calls: lines, a table, a file.

use crate::descriptors::Held;
use crate::event::Event;
use crate::source::Count;
use hooks::rings::Losses;
use std::io;

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

    /// How many open calls were forgotten, because too many were open at the same time: what returned of them was not told.
    fn forgotten(&self) -> u64;
}
