//! The running processes that one `mem` watches, whatever it counts in them: objects of a VM ([`crate::attached`]), or blocks of an allocator
//! ([`crate::native`]). Used by `attached` and `native`, and by crate `lancet`.

use crate::analysis::Census;
use process::error::{Error, Result};
use std::time::{Duration, Instant};

pub use inject::Timing;

/// What has happened to the processes.
pub enum Notice {
    /// A process was opened.
    Opened {
        /// Its process id, in the PID namespace of lancet.
        pid: i32,
        /// What is counted in it: the name of its language, and the version of its VM; or whose blocks.
        counted: String,
        /// Whether it was forked by an open process, whose agent it has.
        forked: bool,
        /// How long opening it took.
        took: Duration,
        /// How long it stood still, and how often.
        timing: Timing,
    },
    /// A process has ended; what it held at its end is not known.
    Ended(i32),
    /// A process could not be opened or counted, or can no longer be read.
    Lost(Error),
    /// A process was left before its time, or something stays in it, and why.
    Said(i32, String),
}

/// Processes that are opened, looked at and left.
pub trait Watching {
    /// Opens a process.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open(&mut self, pid: i32) -> Result<()>;

    /// Notices who has ended or come. `counting` = the caller takes a look at once.
    fn poll(&mut self, counting: bool);

    /// Until a look was taken one is expected to hold a process for so long.
    fn expect(&mut self, _: Duration) {}

    /// The time from which on another look holds the processes for no more than they may be held.
    fn next_look(&self) -> Instant;

    /// Takes the notices since the last call.
    fn notices(&mut self) -> Vec<Notice>;

    /// Whether no process is open.
    fn is_empty(&self) -> bool;

    /// Looks at every process, by ascending id. `collect` = after a garbage collection, where there is one.
    fn census(&mut self, collect: bool) -> Vec<Census>;

    /// Leaves all; returns the errors of those that could not be left as they should be.
    fn leave(&mut self) -> Vec<Error>;
}
