//! What the threads of a stop did before it, as their scheduler says (`schedstat`). Used by `stop`.

use crate::asleep::{Activity, Ran, run_time};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A stop for which threads were waited for no longer than that has the clock of its beginning: to read more would take as long.
const EXACT: Duration = Duration::from_micros(500);

/// The same for a stop of more threads than that.
const MOST_TIMED: usize = 16;

/// For how long a stop goes on while its threads are asked what they did.
const ASKED: Duration = Duration::from_millis(2);

/// What each thread had done when it was about to be interrupted, and when that was.
#[derive(Debug, Default)]
pub(super) struct Before(HashMap<i32, (Instant, Ran)>);

impl Before {
    /// Asks the threads of process `pid` but those in `left`.
    pub(super) fn of(pid: i32, threads: Vec<i32>, left: &HashSet<i32>) -> Before {
        let asked = threads.into_iter().filter(|tid| !left.contains(tid));
        let ran = |tid| Some((tid, (Instant::now(), run_time(pid, tid)?)));
        Before(asked.filter_map(ran).collect())
    }

    /// Returns the moment at which the first of the threads stood, now that all do, for a stop that began `since`: that thread had waited for a
    /// processor for some of the time since it was interrupted.
    pub(super) fn first_stood(&self, pid: i32, since: Instant) -> Instant {
        if since.elapsed() < EXACT || self.0.len() > MOST_TIMED {
            return since;
        }
        let stood = |(tid, (asked, before)): (&i32, &(Instant, Ran))| {
            let waited = run_time(pid, *tid)?.waited;
            Some(*asked + waited.saturating_sub(before.waited))
        };
        let first = self.0.iter().filter_map(stood).min();
        first.map_or(since, |first| first.clamp(since, Instant::now()))
    }

    /// Returns what a thread that stands now did before. A stop that has lasted for [`ASKED`] is not made longer by that.
    pub(super) fn activity(&self, pid: i32, tid: i32, age: Duration) -> Activity {
        let before = self.0.get(&tid).filter(|_| age < ASKED);
        let turns = before.and_then(|(_, before)| Some((before.turns, run_time(pid, tid)?.turns)));
        match turns {
            Some((before, now)) if before == now => Activity::Ran,
            Some(_) => Activity::Queued,
            None => Activity::Unknown,
        }
    }
}
