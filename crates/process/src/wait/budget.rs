//! The time limit of the search for other processes that are involved in a wait. Used by `others` and `retried`.

use crate::clock::thread_time;
use std::time::{Duration, Instant};

/// How long the descriptors of other processes are searched: in processor time of lancet, and, for busy machines, in real time.
const PATIENCE: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(2);

/// The moment at which a search ends.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// In processor time of this thread.
    processor: Duration,
    end: Instant,
}

impl Budget {
    /// A budget that begins now.
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
