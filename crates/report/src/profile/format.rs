//! What a format of profiles is.

use std::io::{self, Write};
use std::time::Duration;

use frames::profile::Profile;

/// One way to write a profile.
#[derive(Debug)]
pub struct Format {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it is JSON, in which the losses of the run are the last record.
    pub is_json: bool,
    /// Whether a terminal can show it.
    pub is_text: bool,
    pub(super) write: fn(&Profile, &mut dyn Write, &Head) -> io::Result<()>,
}

/// What stands above a profile.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Which processes were looked at.
    pub who: &'a str,
    /// How many looks there were, and in how long a time.
    pub title: &'a str,
    /// How long that was.
    pub took: Duration,
    /// How long the processes stood still for the looks, in words.
    pub cost: &'a str,
    /// What was lost, a sentence each, for a format that says all in one place.
    pub missed: &'a [String],
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
}
