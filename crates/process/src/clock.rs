//! The time-stamp counter as time: hooks note cycles, people read seconds.
//!
//! The counter runs at one speed on every processor (`constant_tsc nonstop_tsc`); which, is measured against the
//! monotonic clock over the whole time since [`Clock::start`], so that it gets better while one waits.

use std::time::{Duration, Instant, SystemTime};

/// Measured over less than this, the speed is too coarse.
const LEAST: Duration = Duration::from_millis(20);

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks: u64,
    instant: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Notes where all clocks stand.
    pub fn start() -> Self {
        Clock {
            ticks: now(),
            instant: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Nanoseconds of one cycle.
    pub fn period(&self) -> f64 {
        let missing = LEAST.saturating_sub(self.instant.elapsed());
        if !missing.is_zero() {
            std::thread::sleep(missing);
        }
        let ticks = now().wrapping_sub(self.ticks).max(1);
        self.instant.elapsed().as_nanos() as f64 / ticks as f64
    }

    /// The time of day at `ticks`, from 1970 on, with cycles of so many nanoseconds.
    pub fn wall(&self, ticks: u64, period: f64) -> Duration {
        let since = (ticks.wrapping_sub(self.ticks) as i64) as f64 * period;
        let start = self
            .wall
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let shift = Duration::from_nanos(since.abs() as u64);
        match since >= 0.0 {
            true => start + shift,
            false => start.saturating_sub(shift),
        }
    }
}

/// The counter.
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}
