//! What a format of folded stacks is.

use std::io::{self, Write};

use super::stacks::Stacks;

/// One way to write folded stacks.
#[derive(Debug)]
pub struct Format {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it writes records, of which the losses of the run are the last.
    pub has_records: bool,
    pub(super) write: fn(&Stacks, &mut dyn Write, &str) -> io::Result<()>,
}

impl Format {
    /// Writes the stacks; `title` says what was looked at, where the format has room for it.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, stacks: &Stacks, out: &mut dyn Write, title: &str) -> io::Result<()> {
        (self.write)(stacks, out, title)
    }
}

impl crate::Format for Format {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn has_records(&self) -> bool {
        self.has_records
    }
}
