//! Decides how often and how long something is tried again that has failed for a reason that may pass. Used by `guest`
//! and `programs`, and by the crates `hooks`, `calls`, `enter` and `lancet`.

use crate::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a stop with a remote call is tried if the threads stand where a remote call is not possible.
pub const TRIES: u32 = 60;
/// The pause between two tries.
pub const PAUSE: Duration = Duration::from_millis(5);

/// How long another lancet that traces the process is waited for. Its stops are short, but several may have the process
/// open, and one that attaches may write thousands of hooks in one stop.
const OTHERS: Duration = Duration::from_secs(5);
/// The longest pause between two tries in that case, as a multiple of [`PAUSE`].
const MOST_PAUSES: u32 = 10;

/// Counts the tries of one piece of work, and decides whether there is another.
#[derive(Debug)]
pub struct Tries {
    left: u32,
    /// How often another lancet was in the way.
    traced: u32,
    since: Instant,
}

impl Tries {
    /// Begins to count; no try was made yet.
    pub fn begin() -> Self {
        Tries {
            left: TRIES,
            traced: 0,
            since: Instant::now(),
        }
    }

    /// Whether to try again after this error; if so, it has paused before it returns. For a reason in the process itself
    /// there are [`TRIES`] tries; another lancet is waited for.
    pub fn again(&mut self, error: &Error) -> bool {
        let again = match error {
            Error::Traced { .. } => error.may_pass() && self.since.elapsed() < OTHERS,
            _ => error.may_pass() && self.left != 0,
        };
        if again {
            let pause = match error {
                // Each try stops threads, so the pauses between tries get longer.
                Error::Traced { .. } => {
                    self.traced = (self.traced + 1).min(MOST_PAUSES);
                    PAUSE * self.traced
                }
                _ => {
                    self.left -= 1;
                    PAUSE
                }
            };
            sleep(pause);
        }
        again
    }
}
