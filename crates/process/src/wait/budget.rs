//! How long is searched for who else has to do with a wait.

use crate::clock::thread_time;
use std::time::{Duration, Instant};

/// How long the descriptors of other processes are searched: of lancet's processor time, and in all, on a machine that is busy.
const PATIENCE: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(2);

/// When a search ends.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// By this thread's processor time.
    processor: Duration,
    end: Instant,
}

impl Budget {
    /// One that begins now.
    pub(super) fn begin() -> Budget {
        Budget {
            processor: thread_time() + PATIENCE,
            end: Instant::now() + LONGEST,
        }
    }

    /// Whether it has been used up.
    pub(super) fn is_spent(self) -> bool {
        thread_time() >= self.processor || Instant::now() >= self.end
    }
}
