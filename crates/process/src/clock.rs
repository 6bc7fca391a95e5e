//! Conversion of the time-stamp counter, which hooks record, to nanoseconds and to the time of day.
//!
//! The counter runs at one constant speed on all processors (flags `constant_tsc nonstop_tsc` of `/proc/cpuinfo`). The
//! speed is measured against the monotonic clock over the whole time since [`Clock::start`], so it becomes more exact
//! with time.

use std::time::{Duration, Instant, SystemTime};

/// The shortest time over which the speed is measured.
const LEAST: Duration = Duration::from_millis(20);

/// A point in time, by all clocks; see the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks: u64,
    instant: Instant,
    /// The time of day at that moment, since 1970-01-01 UTC.
    wall: Duration,
}

impl Clock {
    /// Reads the time-stamp counter, the monotonic clock and the time of day, one after the other.
    pub fn start() -> Self {
        Clock {
            ticks: now(),
            instant: Instant::now(),
            wall: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// The length of one cycle in nanoseconds. Waits until `LEAST` has passed since [`Clock::start`].
    pub fn period(&self) -> f64 {
        let missing = LEAST.saturating_sub(self.instant.elapsed());
        if !missing.is_zero() {
            std::thread::sleep(missing);
        }
        let ticks = now().wrapping_sub(self.ticks).max(1);
        self.instant.elapsed().as_nanos() as f64 / ticks as f64
    }

    /// The time of day at counter value `ticks`, since 1970; `period` is the length of a cycle, from [`Clock::period`].
    pub fn wall(&self, ticks: u64, period: f64) -> Duration {
        let since = (ticks.wrapping_sub(self.ticks) as i64) as f64 * period;
        let shift = Duration::from_nanos(since.abs() as u64);
        if since >= 0.0 {
            self.wall + shift
        } else {
            self.wall.saturating_sub(shift)
        }
    }
}

/// Reads the time-stamp counter.
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}
