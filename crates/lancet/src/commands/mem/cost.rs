//! What a look will cost a process, as far as its heap says before one is taken: a large one is said, and one that is more than `--budget` allows
//! is refused. It is an estimate by the slots alone: what they hold (one array may have millions of elements) and how busy the machine is, nobody
//! knows before. So only that is refused which is too much even by the least figure. Used by `attached`.

use std::time::Duration;

use report::figures::grouped;

use super::MemArgs;

/// Nanoseconds for which a process stands still for each slot of its heap, the least and the most that was measured: for a collection and the count
/// behind it, and for the count alone. Of a Ruby 3.1 that had 2.5 million slots of arrays, 4.8 of hashes with their texts, 4.6 with objects that refer
/// to each other in no order, on a processor of its own, the collection took 32, 46 and 147 ns; of one with 5.5 million slots on a busy machine 776.
const COLLECTED: [u64; 2] = [32, 776];
const COUNTED: [u64; 2] = [10, 50];

/// From so many slots on it is said before what a look costs: as `heap` does.
const MANY: u64 = 1_000_000;

/// A shorter look is never refused: who watches for a moment wants an answer.
const SHORT: Duration = Duration::from_millis(100);

/// What a look will cost one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    slots: u64,
    /// For how long it would hold the process by the least and by the most that was measured.
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

    /// How long it takes at least.
    pub fn least(self) -> Duration {
        self.time[0]
    }

    /// What is said of a process that was opened without a question, as children are; `None`: nothing.
    pub fn warning(self, pid: i32, allowed: Allowed) -> Option<String> {
        let allowed = Allowed {
            watch_for: None,
            ..allowed
        };
        match self.answer(pid, allowed) {
            Answer::Said(text) => Some(text),
            Answer::Small | Answer::Refused(_) => None,
        }
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
        if let Some(watch_for) = watch_for
            && self.time[0] > SHORT
            && self.time[0] > watch_for * budget / 100
        {
            let needed = (100.0 * least / watch_for.as_secs_f64()).ceil();
            let more = match needed <= 100.0 {
                true => format!(", allow more (--budget {needed})"),
                false => String::new(),
            };
            let counted = Duration::from_nanos(COUNTED[0].saturating_mul(self.slots));
            let without = match collects && counted <= watch_for * budget / 100 {
                true => ", or count without a collection (--no-gc)",
                false => "",
            };
            let length = watch_for.as_secs_f64();
            return Answer::Refused(format!(
                "{has}: a look would hold it for at least some {least:.2} s, and {budget} % of {length:.1} s are {:.2} s: it was not opened. Watch for longer (--for {:.0}s){more}{without}",
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
            "{has}: a look ({what}) holds it for some {least:.2} to {most:.2} s by what was measured of others: how much the slots hold is not known before"
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
        // Six times as much as is allowed, but it is short.
        assert_eq!(answer(2_000_000, Some(1), 1, true), {
            Answer::Said("process 7 has 2,000,000 slots for objects in its heap: a look (a collection and a count) holds it for some 0.06 to 1.55 s by what was measured of others: how much the slots hold is not known before".into())
        });
        assert_eq!(answer(5_500_000, Some(3), 5, true), {
            Answer::Refused("process 7 has 5,500,000 slots for objects in its heap: a look would hold it for at least some 0.18 s, and 5 % of 3.0 s are 0.15 s: it was not opened. Watch for longer (--for 4s), allow more (--budget 6), or count without a collection (--no-gc)".into())
        });
        for (length, budget, collects) in [
            (Some(3), 6, true),
            (Some(4), 5, true),
            (Some(3), 5, false),
            (None, 1, true),
        ] {
            let answer = answer(5_500_000, length, budget, collects);
            assert!(matches!(answer, Answer::Said(_)), "{answer:?}");
        }
    }

    #[test]
    fn what_can_not_be_allowed_is_not_offered() {
        for (slots, collects, offered) in [
            (500_000_000, false, "Watch for longer (--for 5s)"),
            (500_000_000, true, "Watch for longer (--for 16s)"),
            (
                50_000_000,
                true,
                "(--for 2s), or count without a collection (--no-gc)",
            ),
        ] {
            let Answer::Refused(text) = answer(slots, Some(1), 100, collects) else {
                panic!("it holds the process for longer than it is watched");
            };
            assert!(text.ends_with(offered), "{text}");
        }
    }

    /// A child is opened already: it is told of, and never refused.
    #[test]
    fn of_a_child_it_is_said() {
        let allowed = Allowed {
            watch_for: Some(Duration::from_secs(1)),
            budget: 1,
            collects: true,
        };
        assert_eq!(Cost::new(999_999, true).warning(7, allowed), None);
        assert!(Cost::new(50_000_000, true).warning(7, allowed).is_some());
    }
}
