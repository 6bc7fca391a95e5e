//! How long a test waits: for a thread's share of a processor, not for a clock.
//!
//! Beside other tests and builds a guest gets a part of a processor, and what takes a second alone takes ten. A limit in seconds then bounds the
//! machine and not the guest. So a moment in which more threads want to run than there are processors counts as the share of it that each of
//! them gets, a sixteenth at least, and time that the hypervisor gave to somebody else (`steal` of `/proc/stat`) shrinks it in the same way.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Ticks;

/// How often the machine is asked how busy it is.
const LOOK: Duration = Duration::from_millis(100);
/// No moment counts less, so that every wait ends.
const LEAST: f64 = 1.0 / 16.0;

/// What is left of a wait.
pub struct Patience {
    left: f64,
    since: Instant,
    ticks: Ticks,
}

impl Patience {
    /// A wait of at most so long on a machine that does nothing else.
    pub fn of(limit: Duration) -> Self {
        Patience {
            left: limit.as_secs_f64(),
            since: Instant::now(),
            ticks: Ticks::now(),
        }
    }

    /// Whether the wait is over.
    pub fn is_over(&mut self) -> bool {
        let passed = self.since.elapsed();
        if passed >= LOOK {
            let share = share(runnable(), self.ticks.stolen_since());
            self.left -= passed.as_secs_f64() * share;
            (self.since, self.ticks) = (Instant::now(), Ticks::now());
        }
        self.left <= 0.0
    }

    /// The next of a channel within what is left.
    pub fn next<T>(&mut self, from: &Receiver<T>) -> Result<T, RecvTimeoutError> {
        loop {
            match from.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if !self.is_over() => {}
                next => return next,
            }
        }
    }
}

/// The part of a processor that each of so many threads gets, where so large a part of the time was stolen.
fn share(runnable: usize, stolen: f64) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = processors as f64 / runnable.max(1) as f64 * (1.0 - stolen);
    share.clamp(LEAST, 1.0)
}

/// How many threads run or want to (proc_loadavg(5), the fourth field).
fn runnable() -> usize {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = load
        .split(' ')
        .nth(3)
        .and_then(|field| field.split('/').next());
    field.and_then(|number| number.parse().ok()).unwrap_or(1)
}
