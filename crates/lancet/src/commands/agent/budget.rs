//! The processor time that the agent and what it starts may use: it is measured, and captures wait until there is enough. Used by `run` and
//! `turn`.

use std::time::Duration;

/// What is saved while nothing is to be done is that of so long, at most: one capture may cost so much at once.
const SAVED: f64 = 3600.0;
/// What is owed is that of so long, at most: then captures are begun again, whatever has used it.
const OWED: f64 = 4.0 * 3600.0;
/// A first run has as much as if it had saved for so long.
const AT_FIRST: f64 = 60.0;

/// With less a capture does not come to an end.
const LEAST: Duration = Duration::from_secs(2);

/// What has come to pass between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The processor time that was used.
    pub used: Duration,
    /// The time itself.
    pub passed: Duration,
    /// The processor time that could be used in that.
    pub granted: Duration,
}

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
            credit: credit.clamp(-share * OWED * 1e6, share * SAVED * 1e6),
            at: now,
            used: Duration::ZERO,
        }
    }

    /// Counts what was used since the last time.
    pub fn count(&mut self, now: Duration, used: Duration) -> Counted {
        let more = used.saturating_sub(self.used);
        let passed = now.saturating_sub(self.at);
        self.credit += passed.as_secs_f64() * 1e6 * self.share - more.as_secs_f64() * 1e6;
        self.credit = (self.credit).clamp(-self.share * OWED * 1e6, self.most());
        (self.at, self.used) = (now, used);
        Counted {
            used: more,
            passed,
            granted: passed.mul_f64(self.share),
        }
    }

    /// The processor time that one capture may use: what can be saved at all; where a condition is waited for, what can be owed.
    pub fn most_of_one(&self, has_condition: bool) -> Duration {
        let span = if has_condition { OWED } else { SAVED };
        Duration::from_secs_f64(self.share * span).max(LEAST)
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
        let counted = budget.count(100 * second, second);
        assert_eq!((counted.used, counted.granted), (second, second));
        assert_eq!(budget.most_of_one(false), 36 * second);
        assert_eq!(budget.most_of_one(true), 144 * second);
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
        // What is owed is paid within hours, whatever was used.
        budget.count(100_000 * second, 9000 * second);
        assert_eq!(budget.left(), -144_000_000);
        budget.count(118_000 * second, 9000 * second);
        assert_eq!(budget.left(), 36_000_000);
        // A clock that stands or goes back gives nothing.
        budget.count(99_000 * second, 9001 * second);
        assert_eq!(budget.left(), 35_000_000);
    }

    #[test]
    fn an_earlier_run_has_left_what_it_owed() {
        let budget = Budget::new(0.005, Some(-5), Duration::from_secs(9));
        assert!(!budget.affords(0));
        assert!(used_here() > Duration::ZERO);
    }
}
