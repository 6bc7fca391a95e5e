//! What becomes of calls: lines, a table, a file.

use super::source::Count;
use super::told::Told;
use process::lanes::Losses;
use std::io;

/// What is known when nothing is told any more.
#[derive(Debug, Default)]
pub struct End {
    /// What was counted where it happened, instead of being told.
    pub counted: Vec<Count>,
    /// What got lost in each process.
    pub losses: Vec<(i32, Losses)>,
}

/// Takes calls and returns in the order of time.
pub trait Sink {
    /// Takes one.
    fn take(&mut self, told: Told) -> io::Result<()>;

    /// Nothing comes for a moment: what was taken is to be seen.
    fn rest(&mut self) -> io::Result<()>;

    /// Nothing comes any more.
    fn finish(&mut self, end: End) -> io::Result<()>;
}
