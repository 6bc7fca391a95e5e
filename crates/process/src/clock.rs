//! Conversion of the time-stamp counter, which hooks record, to nanoseconds and to the time of day. Used by
//! `interrupted::slept` and `wait::budget`, and by the crates `calls`, `patch` and `inject`.
//!
//! The counter runs at one constant speed on all processors (flags `constant_tsc nonstop_tsc` of `/proc/cpuinfo`). The
//! speed is measured against the monotonic clock over the whole time since [`Clock::start`], so it becomes more exact
//! with time.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

/// The shortest time over which the speed is measured.
const LEAST: Duration = Duration::from_millis(20);

/// One moment as all clocks show it; see the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks: u64,
    instant: Instant,
    /// The time of day at that moment, since 1970-01-01 UTC.
    wall: Duration,
}

impl Clock {
    /// Reads the time-stamp counter, the monotonic clock and the time of day.
    pub fn start() -> Self {
        let (ticks, instant) = both(now, Instant::now);
        Clock {
            ticks,
            instant,
            wall: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// The length of one cycle in nanoseconds. Waits until `LEAST` has passed since [`Clock::start`].
    pub fn period(&self) -> f64 {
        self.period_after(LEAST)
    }

    /// Like [`Clock::period`], but waits only until `least` has passed. One reading of both clocks is off by about 50 ns; that,
    /// divided by `least`, is the relative error.
    pub fn period_after(&self, least: Duration) -> f64 {
        let missing = least.saturating_sub(self.instant.elapsed());
        if !missing.is_zero() {
            std::thread::sleep(missing);
        }
        let (ticks, instant) = both(now, Instant::now);
        let ticks = ticks.wrapping_sub(self.ticks).max(1);
        instant.duration_since(self.instant).as_nanos() as f64 / ticks as f64
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

/// The time of day of moments that are told as soon as they come. It never waits: the speed is measured again whenever the time over which
/// it was measured has doubled, so no moment is off by more than twice the error of one reading (about 50 ns).
#[derive(Clone, Debug)]
pub struct Present {
    clock: Clock,
    period: Cell<f64>,
    /// The counter's value up to which `period` is exact enough.
    until: Cell<u64>,
}

impl From<Clock> for Present {
    fn from(clock: Clock) -> Self {
        Present {
            clock,
            period: Cell::new(0.0),
            until: Cell::new(clock.ticks),
        }
    }
}

impl Present {
    /// The time of day at a counter value of just now, since 1970.
    pub fn wall(&self, ticks: u64) -> Duration {
        if ticks.wrapping_sub(self.until.get()).cast_signed() >= 0 {
            self.period.set(self.clock.period_after(Duration::ZERO));
            let since = now().wrapping_sub(self.clock.ticks);
            self.until
                .set(self.clock.ticks.wrapping_add(since.wrapping_mul(2)));
        }
        self.clock.wall(ticks, self.period.get())
    }

    /// The length of one cycle in nanoseconds, exact to a ten-thousandth. It waits for a millisecond at most: whoever has started a program
    /// waits too, as it ends.
    pub fn period(&self) -> f64 {
        const ENOUGH: Duration = Duration::from_millis(1);
        self.clock.period_after(ENOUGH)
    }
}

/// Number of readings of both clocks.
const READINGS: usize = 8;

/// Reads the counter and a clock at the same moment. The counter is read before and after the clock, and of several such readings
/// the one with the smallest difference counts: a thread that loses its processor between the two would add milliseconds to one
/// of them.
fn both<T>(mut ticks: impl FnMut() -> u64, mut clock: impl FnMut() -> T) -> (u64, T) {
    let mut read = || {
        let (before, clock, after) = (ticks(), clock(), ticks());
        (after.wrapping_sub(before), before, clock)
    };
    let mut best = read();
    for _ in 1..READINGS {
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    let (between, before, clock) = best;
    (before.wrapping_add(between / 2), clock)
}

/// Reads the time-stamp counter.
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns the processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

fn read(clock: libc::clockid_t) -> Option<Duration> {
    // SAFETY: all zeros is a valid `timespec`; it is a live value of this frame, to which the call writes.
    let (done, time) = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        (libc::clock_gettime(clock, &raw mut time), time)
    };
    (done == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the first microsecond on, over many measurements of the speed.
    #[test]
    fn the_present_is_told_without_waiting_and_is_that_of_the_system() {
        let clock = Clock::start();
        let present = Present::from(clock);
        let began = clock.instant;
        let mut last = Duration::ZERO;
        while began.elapsed() < LEAST {
            let (ticks, instant) = both(now, Instant::now);
            let (told, is) = (present.wall(ticks), clock.wall + (instant - began));
            // A reading may be disturbed on a virtual machine, but not by what a wait would take.
            assert!(told.abs_diff(is) < LEAST / 4, "{told:?} for {is:?}");
            assert!(last <= told + Duration::from_micros(100));
            last = told;
        }
        let ticks = now();
        present.wall(ticks);
        let until = present.until.get();
        assert!(
            until.wrapping_sub(ticks).cast_signed() >= 0,
            "measured again"
        );
    }

    /// The first reading loses its processor for two milliseconds between the two clocks, and for most of the others something
    /// smaller happens.
    #[test]
    fn a_reading_that_was_interrupted_is_not_taken() {
        let (time, reading) = (Cell::new(1000), Cell::new(0));
        let ticks = || time.replace(time.get() + 20);
        let clock = || {
            let pause =
                [6_000_000, 900, 900, 0, 900, 900, 900, 900][reading.replace(reading.get() + 1)];
            time.replace(time.get() + 20 + pause)
        };
        let (ticks, clock) = both(ticks, clock);
        assert_eq!(ticks, clock, "both are of the same moment");
    }
}
