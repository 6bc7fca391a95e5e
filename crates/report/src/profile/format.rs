//! What a format of profiles is.

use std::io::{self, Write};

use frames::profile::Profile;
use frames::profile::saved::About;

/// One way to write a profile.
#[derive(Debug)]
pub struct Format {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it writes records, of which the losses of the run are the last.
    pub has_records: bool,
    /// Whether a terminal can show it.
    pub is_text: bool,
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
