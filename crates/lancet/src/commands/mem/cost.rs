//! What a look will cost a process, as far as its heap says before one is taken: a large one is said, and one that is more than `--budget` allows
//! is refused. Used by `attached`.

use std::time::Duration;

use report::figures::grouped;

use super::MemArgs;

/// Nanoseconds for which a process stands still for each slot of its heap, at least and at most: for a collection and the count behind it, and for the
/// count alone. Measured with a Ruby 3.1 that had 2.5 million slots of arrays, 4.8 of hashes with their texts, 4.6 with objects that refer to each
/// other in no order, on a processor of its own: 32, 46 and 147 ns for the collection.
const COLLECTED: [u64; 2] = [40, 200];
const COUNTED: [u64; 2] = [10, 50];

/// From so many slots on it is said before what a look costs: as `heap` does.
const MANY: u64 = 1_000_000;

/// A shorter look is never refused: who watches for a moment wants an answer.
const SHORT: Duration = Duration::from_millis(100);

/// What a look will cost one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    slots: u64,
    /// For how long it will hold the process, at least and at most.
    time: [Duration; 2],
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is said.
    Small,
    /// It is said, and the process is opened.
    Said(String),
    /// The process is not opened.
    Refused(String),
}

/// How long the process is watched, and how much of that looks may take.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// `None`: until somebody ends it.
    pub watch_for: Option<Duration>,
    /// In per cent of the time.
    pub budget: u32,
    /// Whether garbage is collected before each count.
    pub collects: bool,
}

impl Allowed {
    /// What the flags allow.
    pub fn by(args: &MemArgs) -> Self {
        Allowed {
            watch_for: args.watch_for,
            budget: args.options().budget,
            collects: args.gc(),
        }
    }
}

/// Asks the heap of a process. `None`: it does not say, or the process cannot be read, which is said when it is opened.
pub fn of(pid: i32, collects: bool) -> Option<Cost> {
    let expected = dump::expected(pid).ok()?;
    expected
        .counted
        .then(|| Cost::new(expected.objects, collects))
}

impl Cost {
    fn new(slots: u64, collects: bool) -> Self {
        let each = if collects { COLLECTED } else { COUNTED };
        Cost {
            slots,
            time: each.map(|each| Duration::from_nanos(each.saturating_mul(slots))),
        }
    }

    /// How long it may take.
    pub fn most(self) -> Duration {
        self.time[1]
    }

    /// Decides whether a process is opened.
    pub fn answer(self, pid: i32, allowed: Allowed) -> Answer {
        let [least, most] = self.time.map(|time| time.as_secs_f64());
        let has = format!(
            "process {pid} has {} slots for objects in its heap",
            grouped(self.slots)
        );
        let Allowed {
            watch_for,
            budget,
            collects,
        } = allowed;
        if let Some(length) = watch_for
            && self.time[0] > SHORT
            && self.time[0] > length * budget / 100
        {
            let length = length.as_secs_f64();
            let needed = (100.0 * least / length).ceil();
            let more = match needed <= 100.0 {
                true => format!(", allow more (--budget {needed})"),
                false => String::new(),
            };
            let without = match collects {
                true => ", or count without a collection (--no-gc)",
                false => "",
            };
            return Answer::Refused(format!(
                "{has}: a look would hold it for {least:.2} to {most:.2} s, and {budget} % of {length:.1} s are {:.2} s: it was not opened. Watch for longer (--for {:.0}s){more}{without}",
                length * f64::from(budget) / 100.0,
                (100.0 * least / f64::from(budget)).ceil(),
            ));
        }
        if self.slots < MANY {
            return Answer::Small;
        }
        let what = match collects {
            true => "a collection and a count",
            false => "a count",
        };
        Answer::Said(format!(
            "{has}: a look ({what}) will hold it for {least:.2} to {most:.2} s, longer where the machine is busy"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(slots: u64, watch_for: Option<u64>, budget: u32, collects: bool) -> Answer {
        let allowed = Allowed {
            watch_for: watch_for.map(Duration::from_secs),
            budget,
            collects,
        };
        Cost::new(slots, collects).answer(7, allowed)
    }

    #[test]
    fn a_large_look_is_said_and_one_beyond_the_budget_refused() {
        assert_eq!(answer(300_000, Some(1), 1, true), Answer::Small);
        // Two thirds of it would be more, but it is short.
        assert_eq!(answer(2_000_000, Some(1), 1, true), {
            Answer::Said("process 7 has 2,000,000 slots for objects in its heap: a look (a collection and a count) will hold it for 0.08 to 0.40 s, longer where the machine is busy".into())
        });
        assert_eq!(answer(5_500_000, Some(4), 5, true), {
            Answer::Refused("process 7 has 5,500,000 slots for objects in its heap: a look would hold it for 0.22 to 1.10 s, and 5 % of 4.0 s are 0.20 s: it was not opened. Watch for longer (--for 5s), allow more (--budget 6), or count without a collection (--no-gc)".into())
        });
        assert!(matches!(
            answer(5_500_000, Some(4), 6, true),
            Answer::Said(_)
        ));
        assert!(matches!(
            answer(5_500_000, Some(5), 5, true),
            Answer::Said(_)
        ));
        assert!(matches!(
            answer(5_500_000, Some(4), 5, false),
            Answer::Said(_)
        ));
        assert!(matches!(answer(5_500_000, None, 1, true), Answer::Said(_)));
    }

    #[test]
    fn what_can_not_be_allowed_is_not_offered() {
        let Answer::Refused(text) = answer(500_000_000, Some(1), 100, false) else {
            panic!("it holds the process for longer than it is watched");
        };
        assert!(
            text.ends_with("it was not opened. Watch for longer (--for 5s)"),
            "{text}"
        );
    }
}
