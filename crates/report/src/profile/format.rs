//! What a format of profiles is. Used by `html`, `json` and others here, and by crate `lancet`.

use std::io::{self, Write};

use frames::profile::Profile;
use frames::profile::saved::About;

use crate::Writes;
use crate::forms::stacks::StackForm;

/// One way to write a profile.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    pub(super) write: fn(&Profile, &mut dyn Write, &Head) -> io::Result<()>,
}

/// What stands above a profile.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// What is known of the looks.
    pub about: &'a About,
    /// How many looks there were, in how long a time, and what that says of the error of a share.
    pub title: &'a str,
    /// How many rows a table has at most.
    pub rows: usize,
    /// Its rows are in the order of their total shares, not of their own.
    pub by_total: bool,
    /// Records are of the functions of this name alone, and of what they call.
    pub function: Option<&'a str>,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
}

impl Format {
    /// Writes a profile.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
        (self.write)(profile, out, head)
    }
}

impl crate::FormatEntry for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}
