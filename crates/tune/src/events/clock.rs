//! The time of day at which something happened, for the events of `lancet tune --events`. Used by
//! `report::tune::events::text`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Event;

/// A time of day in the local time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub struct LocalTime {
    pub hour: i32,
    pub minute: i32,
    /// 0 to 60; a leap second is 60.
    pub second: i32,
    pub millisecond: u32,
}

impl LocalTime {
    /// Returns the time of day now.
    pub fn now() -> Self {
        Self::ago(Duration::ZERO)
    }

    /// Returns the time of day at which an event happened.
    pub fn of_event(event: &Event) -> Self {
        Self::ago(age(event.nanos))
    }

    fn ago(ago: Duration) -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .saturating_sub(ago);
        let seconds = since.as_secs().cast_signed();
        // SAFETY: `tm` is plain data, for which all zeros is a value; both live across the call.
        let local = unsafe {
            let mut local: libc::tm = std::mem::zeroed();
            libc::localtime_r(&raw const seconds, &raw mut local);
            local
        };
        Self {
            hour: local.tm_hour,
            minute: local.tm_min,
            second: local.tm_sec,
            millisecond: since.subsec_millis(),
        }
    }
}

/// Returns how long ago a time of CLOCK_MONOTONIC, in nanoseconds, was.
fn age(nanos: u64) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
    now.saturating_sub(Duration::from_nanos(nanos))
}
