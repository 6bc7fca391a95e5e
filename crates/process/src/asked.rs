//! Whether this process was asked to end: noted by its handler of signals, and read by whoever waits for a guest that may never answer.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// The signal that has asked for it; 0 = none.
pub static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// How long a guest is waited for from then on.
const PATIENCE: Duration = Duration::from_secs(2);

/// A wait for a guest, which is cut short when we are asked to end.
#[derive(Debug)]
pub struct Wait {
    begun: Instant,
    /// Since when that is known within this wait.
    asked: Option<Instant>,
}

impl Wait {
    /// A wait begins.
    pub fn begin() -> Self {
        Wait {
            begun: Instant::now(),
            asked: None,
        }
    }

    /// Whether the wait is over, because we were asked to end some time ago.
    pub fn is_over(&mut self) -> bool {
        if SIGNAL.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.asked.get_or_insert_with(Instant::now).elapsed() > PATIENCE
    }

    /// For how long it has lasted.
    pub fn lasts(&self) -> Duration {
        self.begun.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_over_some_time_after_we_were_asked_to_end() {
        let mut wait = Wait::begin();
        assert!(!wait.is_over());
        SIGNAL.store(libc::SIGTERM, Ordering::Relaxed);
        assert!(!wait.is_over(), "there is time to leave");
        while !wait.is_over() {
            assert!(wait.lasts() < 10 * PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(wait.lasts() >= PATIENCE);
        SIGNAL.store(0, Ordering::Relaxed);
    }
}
