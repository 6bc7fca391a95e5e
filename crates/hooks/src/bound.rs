//! How long a process may stand still at once, and what setting hooks is expected to take of that. Used by `lifting`,
//! `batches`, `patcher` and others.

use process::stop::Stop;
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// The longest stop, if nothing else is asked for.
pub const MAX_STOP: Duration = Duration::from_millis(10);
/// The threads of a process that are stopped within that, and what each further one adds.
const THREADS: u32 = 500;
const EACH_THREAD: Duration = Duration::from_micros(20);

/// Hooks that are tried in the first stop.
pub(crate) const FIRST: usize = 512;
/// What a hook takes of a stop, as measured with 75,000 hooks of node on a quiet machine.
const EACH: Duration = Duration::from_micros(5);
/// The least pause between two stops, and the longest one: whoever allows stops of a minute wants no pauses of that length.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
const MOST_PAUSE: Duration = Duration::from_millis(20);

/// How long a process may stand still at once.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The longest stop.
    pub most: Duration,
}

impl Bound {
    /// A stop may be as long as it takes.
    pub(crate) const NONE: Bound = Bound {
        most: Duration::MAX,
    };

    /// The bound for a process with so many threads, of which none may stand longer than `most`.
    pub fn of(most: Duration, threads: usize) -> Self {
        let further = u32::try_from(threads).unwrap_or(u32::MAX);
        let further = further.saturating_sub(THREADS);
        Bound {
            most: most.saturating_add(EACH_THREAD.saturating_mul(further)),
        }
    }

    /// The end of the work in a stop in which all threads stand by now. Some of it is done however long they took to stop: on a busy machine
    /// each waits for a processor first, and the next stop would be no shorter.
    pub(crate) fn deadline(self, stop: &Stop) -> Deadline {
        let since = stop.age();
        Deadline {
            since,
            until: self.aim().max(since.saturating_add(self.aim() / 2)),
        }
    }

    /// What a stop is planned to take: half of the bound, because a machine has other work.
    pub(crate) fn aim(self) -> Duration {
        self.most / 2
    }

    /// Lets the process run for about as long as a stop of it is planned to be.
    pub(crate) fn pause(self) {
        sleep(self.aim().clamp(LEAST_PAUSE, MOST_PAUSE));
    }
}

/// When the work in a stop must end, as times since the stop began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// When the work began.
    since: Duration,
    until: Duration,
}

impl Deadline {
    /// Whether no further piece of work is begun.
    pub fn is_over(self, stop: &Stop) -> bool {
        stop.age() > self.until
    }

    /// Whether the next stop goes on: the pieces `done` in this one are not the last of `all`, or they took so long that what comes behind
    /// them is left to it. A stop that has done none does not wait for a shorter one.
    pub fn leaves_rest(self, stop: &Stop, done: Range<usize>, all: usize) -> bool {
        done.end < all || !done.is_empty() && self.is_over(stop)
    }

    /// How long the work has taken.
    pub fn worked(self, stop: &Stop) -> Duration {
        stop.age().saturating_sub(self.since)
    }
}

/// What setting hooks is expected to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of stops.
    pub stops: usize,
    /// What one stop is planned to take.
    pub each: Duration,
    /// The sum of the stops.
    pub all: Duration,
}

impl Cost {
    /// The cost of so many hooks.
    pub(crate) fn of(hooks: usize, bound: Bound) -> Self {
        let all = EACH.saturating_mul(u32::try_from(hooks).unwrap_or(u32::MAX));
        let each = bound.aim().max(Duration::from_micros(1));
        let stops = all.as_nanos().div_ceil(each.as_nanos()).max(1) as usize;
        Cost {
            stops: if hooks > FIRST { stops.max(2) } else { 1 },
            each: each.min(all),
            all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_bound_grows_with_threads_beyond_five_hundred() {
        assert_eq!(Bound::of(10 * MS, 1).most, 10 * MS);
        assert_eq!(Bound::of(10 * MS, 500).most, 10 * MS);
        assert_eq!(Bound::of(10 * MS, 5000).most, 100 * MS);
    }

    #[test]
    fn a_stop_is_planned_for_half_of_the_bound() {
        let bound = Bound::of(10 * MS, 1);
        let few = Cost::of(100, bound);
        assert_eq!((few.stops, few.all), (1, MS / 2));
        let many = Cost::of(75_000, bound);
        assert_eq!((many.stops, many.each, many.all), (75, 5 * MS, 375 * MS));
    }
}
