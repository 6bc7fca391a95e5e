//! What a format of the answers of `lancet heap` is, and what it is told. Used by `diff`, `dump_all` and others here,
//! and by crate `lancet`.

use std::io::{self, Write};

use heap::answers::Answers;

use crate::Style;
use crate::Writes;
use crate::forms::stacks::StackForm;

/// One way to write the answers.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    /// How many rows each list has unless the user says otherwise; `usize::MAX` = all.
    pub rows: usize,
    /// Heaps with more living objects cannot be written so, because what reads the format could not hold them.
    pub most_objects: u64,
    /// It shows what resident memory was used for, if the snapshot says so.
    pub shows_memory: bool,
    pub(super) write: fn(&mut dyn Write, &Answers<'_>, &Options) -> io::Result<()>,
}

impl crate::FormatEntry for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}

impl Format {
    /// Writes the answers.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(
        &self,
        out: &mut dyn Write,
        answers: &Answers<'_>,
        options: &Options,
    ) -> io::Result<()> {
        (self.write)(out, answers, options)
    }
}

/// How the answers are written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most rows of each list. What is left out is summed up in a row of its own.
    pub top: usize,
    /// Contents of objects are shown, where the snapshot has them.
    pub contents: bool,
    /// How a table may look.
    pub style: Style,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
}
