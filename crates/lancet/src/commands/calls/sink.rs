//! What becomes of calls: lines, or a table.

use super::source::Count;
use super::told::Told;
use std::io;

/// Takes calls and returns in the order of time.
pub trait Sink {
    /// Takes one.
    fn take(&mut self, told: Told) -> io::Result<()>;

    /// Nothing comes for a moment: what was taken is to be seen.
    fn rest(&mut self) -> io::Result<()>;

    /// Nothing comes any more but what was counted where it happened.
    fn finish(&mut self, counted: Vec<Count>) -> io::Result<()>;
}
