//! The processor time that the agent and what it starts may use: it is measured, and captures wait until there is enough. Used by `run` and
//! `turn`.

use std::time::Duration;

/// What is saved while nothing is to be done is that of so long, at most: one capture may cost so much at once.
const SAVED: f64 = 3600.0;
/// A first run has as much as if it had saved for so long.
const AT_FIRST: f64 = 60.0;

/// How much may be used, and was.
#[derive(Debug)]
pub struct Budget {
    /// The share of a processor.
    share: f64,
    /// What may be used, in microseconds; negative: more was used.
    credit: f64,
    /// When that was so.
    at: Duration,
    /// What this process and those that it has waited for had used then.
    used: Duration,
}

impl Budget {
    /// With what an earlier run has left; `None`: there was none.
    pub fn new(share: f64, left: Option<i64>, now: Duration) -> Self {
        let credit = left.map_or(share * AT_FIRST * 1e6, |left| left as f64);
        Budget {
            share,
            credit: credit.min(share * SAVED * 1e6),
            at: now,
            used: Duration::ZERO,
        }
    }

    /// Counts what was used since the last time. Returns that.
    pub fn count(&mut self, now: Duration, used: Duration) -> Duration {
        let more = used.saturating_sub(self.used);
        let passed = now.saturating_sub(self.at);
        self.credit += passed.as_secs_f64() * 1e6 * self.share - more.as_secs_f64() * 1e6;
        self.credit = self.credit.min(self.most());
        (self.at, self.used) = (now, used);
        more
    }

    /// Whether what costs so many microseconds can be begun. What costs more than can be saved is begun when all is saved.
    pub fn affords(&self, cost: u64) -> bool {
        self.credit >= (cost as f64).min(self.most())
    }

    /// What is left, in microseconds.
    pub fn left(&self) -> i64 {
        self.credit as i64
    }

    /// From now on another share.
    pub fn set(&mut self, share: f64) {
        self.share = share;
    }

    fn most(&self) -> f64 {
        self.share * SAVED * 1e6
    }
}

/// What this process has used.
pub fn used_here() -> Duration {
    used(libc::RUSAGE_SELF)
}

/// What those have used that it has waited for.
pub fn used_by_children() -> Duration {
    used(libc::RUSAGE_CHILDREN)
}

fn used(who: i32) -> Duration {
    // SAFETY: a live record of this frame, which the kernel fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_owed() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(0.01, None, Duration::ZERO);
        assert!(budget.affords(600_000) && !budget.affords(600_001));
        // A second of a processor is that of a hundred.
        assert_eq!(budget.count(100 * second, second), second);
        assert!(budget.affords(600_000) && !budget.affords(600_001));
        budget.count(100 * second, 3 * second);
        assert!(!budget.affords(0));
        assert_eq!(budget.left(), -1_400_000);
        budget.count(240 * second, 3 * second);
        assert!(budget.affords(0));
        // No more than an hour is saved, and then all can be begun.
        budget.count(100_000 * second, 3 * second);
        assert_eq!(budget.left(), 36_000_000);
        assert!(budget.affords(u64::MAX));
        // A clock that stands or goes back gives nothing.
        budget.count(99_000 * second, 4 * second);
        assert_eq!(budget.left(), 35_000_000);
    }

    #[test]
    fn an_earlier_run_has_left_what_it_owed() {
        let budget = Budget::new(0.005, Some(-5), Duration::from_secs(9));
        assert!(!budget.affords(0));
        assert!(used_here() > Duration::ZERO);
    }
}
