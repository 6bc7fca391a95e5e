//! The part of a recording that is read (`--since`, `--until`). Used by `options` and `replay`, and by
//! `lancet::watching::args` and `lancet::watching::flags`.

use std::time::Duration;

/// A point in time of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The time since the recording began.
    After(Duration),
    /// The first moment, after the recording began, at which local clocks show this time
    /// since midnight.
    TimeOfDay(Duration),
}

/// The part as the user has specified it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Events from then on; `None` = from the beginning.
    pub since: Option<Moment>,
    /// Events before then; `None` = to the end.
    pub until: Option<Moment>,
}

/// The part of a recording that is looked at, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first nanosecond that is in it.
    pub since: u64,
    /// The first nanosecond behind it.
    pub until: u64,
}

impl Between {
    /// Returns the part of a recording that began at `began`, in nanoseconds since 1970.
    pub fn within(&self, began: u64) -> Window {
        let at = |moment: Moment| nanos(moment, began);
        Window {
            since: self.since.map_or(0, at),
            until: self.until.map_or(u64::MAX, at),
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn nanos(moment: Moment, began: u64) -> u64 {
    let after = match moment {
        Moment::After(time) => time,
        Moment::TimeOfDay(time) => {
            let first = crate::event::since_midnight(Duration::from_nanos(began));
            // A time of day before the beginning is that of the next day.
            if time < first {
                time + DAY - first
            } else {
                time - first
            }
        }
    };
    began.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
}
