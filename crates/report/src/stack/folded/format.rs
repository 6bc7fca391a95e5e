//! What a format of folded stacks is. Used by `json` and `table`, and by `lancet::commands::stack::live` and
//! `lancet::commands::stack::args`.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use super::stacks::Stacks;
use crate::Writes;
use crate::forms::stacks::StackForm;

/// One way to write folded stacks.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    pub(super) write: fn(&Stacks, &mut dyn Write, &Head) -> io::Result<()>,
}

/// What is known of the looks, and how they are shown.
#[derive(Debug)]
pub struct Head<'a> {
    /// What was looked at, where the format has room for it.
    pub title: &'a str,
    /// When the first look was.
    pub began: SystemTime,
    /// How long they took.
    pub took: Duration,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
}

impl Format {
    /// Writes what threads did where, as this format has it, to `out`.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, stacks: &Stacks, out: &mut dyn Write, head: &Head) -> io::Result<()> {
        (self.write)(stacks, out, head)
    }
}

impl crate::FormatEntry for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}
