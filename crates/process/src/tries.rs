//! How often and how long something is tried again that has failed for a reason that may pass.

use crate::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often stopping a process and making a remote call in it is tried, if its threads stand where that is not
/// possible.
pub const TRIES: u32 = 60;
/// The pause between two tries.
pub const PAUSE: Duration = Duration::from_millis(5);

/// How long another lancet is waited for that traces the process: its stops are short, but several may have it open, and
/// one that attaches may write thousands of hooks in one stop.
const OTHERS: Duration = Duration::from_secs(5);
/// The longest pause between two tries then, as a multiple of [`PAUSE`].
const MOST_PAUSES: u32 = 10;

/// Counts the tries of one piece of work, and says whether there is to be another.
#[derive(Debug)]
pub struct Tries {
    left: u32,
    /// How often another lancet was in the way.
    traced: u32,
    since: Instant,
}

impl Tries {
    /// Begins to count: no try was made yet.
    pub fn begin() -> Self {
        Tries {
            left: TRIES,
            traced: 0,
            since: Instant::now(),
        }
    }

    /// Whether to try again after this error; if so, some time has passed. What stands in the way in the process itself is
    /// tried [`TRIES`] times, another lancet is waited for.
    pub fn again(&mut self, error: &Error) -> bool {
        let again = match error {
            Error::Traced { .. } => error.may_pass() && self.since.elapsed() < OTHERS,
            _ => error.may_pass() && self.left != 0,
        };
        if again {
            let pause = match error {
                // Each try stops threads: who waits for others tries less and less often.
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
