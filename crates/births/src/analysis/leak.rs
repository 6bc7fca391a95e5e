//! Finds the rows that leak: objects of every interval still live in them. Used by `report` and `growth`, and by the
//! crates `report` and `lancet`.
//!
//! ```text
//!   births of an interval that live now      1st  2nd  3rd  4th (the last)
//!   a leak                                    35   35   35   35
//!   a cache that has filled                 9000  120    0    0
//!   objects of requests in flight              0    0    0   60
//!   objects that live for five seconds         0    0   12   60
//!   a cache that is still filling           1300  750  560  440    each time fewer
//! ```
//!
//! And those of which single objects hold more and more, however many there are: a String that is appended to for ever
//! (`earlier`, [`Counts::grown`]).
//!
//! One census gives these figures exactly, because each object carries the interval of its birth. They are better than the
//! difference of two looks: what a request in flight holds at a look is only in the last interval, and a cache has nothing
//! in the later ones, however much it held before.

use std::collections::HashMap;

use crate::analysis::census::{Alive, Census, Counts, Lost};
use crate::analysis::view::Key;
use wire::ledger::Uncollected;

/// The least number of intervals for a verdict; one of them is that of the requests in flight.
pub const LEAST_INTERVALS: usize = 4;
/// The least time of watching for a verdict, in seconds. A request or a job may take some seconds and make objects all the
/// time, and a thread keeps objects of its last request until the next one comes.
pub const LEAST_SECONDS: f64 = 10.0;
/// The least number of objects of a leak: fewer may be a program's first steps.
const LEAST_OBJECTS: u64 = 20;
/// The least growth in bytes of a row's large objects.
const LEAST_GROWN: u64 = 64 << 10;
/// At most one in this many of a leak's older objects may have died, because the line may make other objects too.
const MAY_DIE: u64 = 10;
/// A leak is steady: of the earlier and the later half of the intervals, neither keeps more than this many times what the
/// other keeps. A cache that fills keeps less and less.
const STEADY: u64 = 4;

/// A row that leaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Leak {
    /// The place, type or gem that leaks.
    pub key: Key,
    /// Whether its objects are from before lancet came.
    pub before: bool,
    /// Whether there are more and more objects, or objects hold more and more.
    pub growing: Growing,
    /// Whether its objects are threads.
    pub of_threads: bool,
    /// The figures of the row.
    pub counts: Counts,
}

/// How a row leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growing {
    /// More and more objects.
    InNumber,
    /// Single objects that hold more and more ([`Counts::grown`], [`Counts::growing`]).
    InSize,
}

/// The answer to the question which rows leak.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The guest was not watched for long enough to tell.
    TooEarly,
    /// Garbage was counted as well, and looks like a leak.
    Garbage,
    /// Births were not counted, this many, and no row leaks: one may whose births are among these.
    Unseen(u64),
    /// No row leaks. Some grew as a leak does, but as many objects of their type from before lancet came died meanwhile:
    /// their container replaces old objects by new ones.
    None {
        /// Number of those rows.
        replaced: usize,
        /// The rows that grew each time by less than before, those with most memory first: a cache that fills does, and so does a leak while
        /// the load falls.
        slowing: Vec<Leak>,
    },
    /// The program has switched the collector off: nothing is freed.
    CollectorOff,
    /// These rows leak, those with most memory first.
    Leaks(Vec<Leak>),
}

/// Whether the verdict names this row; `before`: a row of objects from before lancet came.
pub fn leaks(verdict: Option<&Verdict>, key: &Key, before: bool) -> bool {
    let is_it = |leak: &Leak| leak.before == before && leak.key == *key;
    matches!(verdict, Some(Verdict::Leaks(leaks)) if leaks.iter().any(is_it))
}

/// How the living objects of a row spread over the intervals, which distinguishes a leak from noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trend {
    /// Whether the row leaks: its living objects spread over the intervals as those of a leak do.
    pub leaks: bool,
    /// The bytes that it leaks; 0 if it does not.
    pub bytes: u64,
    /// The smallest number of living objects that the births of any interval have left.
    pub least: u64,
    /// Living objects that were born before the last interval began.
    pub kept: u64,
    /// Whether there are more and more objects.
    more: bool,
    /// Whether each interval has left clearly less than the one before it.
    slows: bool,
}

impl Trend {
    /// Computes the trend of a row with these counts; `intervals` is how many of [`Counts::alive`] are in use.
    pub fn of(counts: &Counts, intervals: usize) -> Self {
        let alive = &counts.alive.0;
        let all = alive.get(..intervals).unwrap_or(alive);
        let grown = if counts.grown >= LEAST_GROWN {
            counts.grown
        } else {
            0
        };
        let Some((last, earlier)) = all.split_last() else {
            return Trend {
                leaks: grown != 0,
                bytes: grown,
                ..Trend::default()
            };
        };
        let sum = |some: &[u64]| some.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
        let least = earlier.iter().fold(*last, |least, one| least.min(*one));
        let kept = sum(earlier);
        // Halves of the same length; with an odd number of intervals both have the middle one.
        let half = earlier.len().div_ceil(2);
        let (old, young) = (sum(&earlier[..half]), sum(&earlier[earlier.len() - half..]));
        let steady = old.min(young).saturating_mul(STEADY) >= old.max(young);
        let more = all.len() >= LEAST_INTERVALS
            && least > 0
            && kept.saturating_add(*last) >= LEAST_OBJECTS
            && steady
            && counts.died_late.saturating_mul(MAY_DIE) <= kept;
        Trend {
            leaks: more || grown != 0,
            bytes: if more { counts.bytes } else { grown },
            least,
            kept,
            more,
            slows: all.windows(2).all(|two| falls(two[0], two[1])),
        }
    }

    /// How it leaks, if it does.
    fn growing(&self) -> Growing {
        if self.more {
            Growing::InNumber
        } else {
            Growing::InSize
        }
    }
}

impl Verdict {
    /// Decides about the rows of a census, each with whether its objects are from before lancet came; `None` if births were not
    /// told apart by intervals.
    pub(crate) fn of<'a>(
        census: &Census,
        rows: impl Iterator<Item = (&'a (Key, bool), &'a Counts)>,
    ) -> Option<Self> {
        let intervals = census.intervals.len();
        if intervals == 0 {
            return None;
        }
        if census.collector_off {
            return Some(Self::CollectorOff);
        }
        // Without the collector a Python keeps garbage in cycles alone, and the sentence says so.
        if census.uncollected == Uncollected::Unasked {
            return Some(Self::Garbage);
        }
        if intervals < LEAST_INTERVALS || census.intervals.iter().sum::<f64>() < LEAST_SECONDS {
            return Some(Self::TooEarly);
        }
        let of_types = Replaced::of(census);
        let mut replaced = 0;
        let (mut leaks, mut slowing) = (Vec::new(), Vec::new());
        for ((key, before), counts) in rows {
            let trend = Trend::of(counts, intervals);
            if !trend.leaks {
                continue;
            }
            let mut leak = Leak {
                key: key.clone(),
                before: *before,
                growing: trend.growing(),
                of_threads: census.is_of_threads(key),
                counts: *counts,
            };
            if leak.growing == Growing::InNumber {
                let explained = of_types.explains(key, counts);
                // What excuses the number of objects does not excuse what single ones hold.
                if (explained || trend.slows) && counts.grown >= LEAST_GROWN {
                    leak.growing = Growing::InSize;
                } else if explained {
                    replaced += 1;
                    continue;
                } else if trend.slows {
                    slowing.push(leak);
                    continue;
                }
            }
            leaks.push((trend, leak));
        }
        // What threads take beside their objects is their stacks. Where the objects do not explain the growth of resident memory, these
        // are most of it.
        let by_stacks = |leak: &Leak| census.resident.is_some() && leak.of_threads;
        leaks.sort_by_cached_key(|(trend, leak)| {
            let order = (std::cmp::Reverse((by_stacks(leak), *trend)), leak.before);
            (order, leak.key.to_string())
        });
        let leaks: Vec<Leak> = leaks.into_iter().map(|(_, leak)| leak).collect();
        slowing.sort_by_cached_key(|leak| {
            (std::cmp::Reverse(leak.counts.bytes), leak.key.to_string())
        });
        let unseen = census.unseen();
        Some(if !leaks.is_empty() {
            Self::Leaks(leaks)
        } else if unseen >= LEAST_OBJECTS {
            Self::Unseen(unseen)
        } else {
            Self::None { replaced, slowing }
        })
    }
}

impl Census {
    /// How many births and deaths were not counted, if these are so many that a row may grow only because of deaths that nobody has seen.
    pub fn unseen_deaths(&self) -> Option<u64> {
        Some(self.lost(Lost::BirthsAndDeaths)).filter(|lost| *lost >= LEAST_OBJECTS)
    }

    /// Whether a row is that of a type of threads, or of a line that makes some.
    fn is_of_threads(&self, key: &Key) -> bool {
        let (Key::Line { kind, .. } | Key::Type { kind } | Key::Stack { kind, .. }) = key else {
            return false;
        };
        self.threads.contains(kind)
    }
}

/// Whether a number is clearly less than the one before it: by an eighth, and by more than counts of things that come by chance differ.
fn falls(before: u64, now: u64) -> bool {
    let less = before.saturating_sub(now);
    less >= before.div_ceil(8) && less > 2 * before.isqrt()
}

/// Types of which any program makes objects in many places.
const COMMON: [&str; 6] = ["String", "Array", "Hash", "Object", "Proc", "Time"];

/// What grew and what died of each type while we watched, without requests in flight: births of the first interval are
/// excluded, because objects that were in flight then have died since, and so are those of the last one.
struct Replaced<'a> {
    census: &'a Census,
    grown: HashMap<&'a str, u64>,
}

impl<'a> Replaced<'a> {
    fn of(census: &'a Census) -> Self {
        let mut grown: HashMap<&str, u64> = HashMap::new();
        for site in &census.sites {
            let sum = grown.entry(&site.kind).or_default();
            *sum = sum.saturating_add(between(&site.counts.alive, census.intervals.len()));
        }
        Replaced { census, grown }
    }

    /// Whether deaths of older objects explain the growth of a row: its type as a whole grew by less than half of it. For a
    /// type that everything uses they explain it only if some of the row's own objects died late too, because such a type
    /// has many reasons for deaths. A row of several types is not explained.
    fn explains(&self, key: &Key, counts: &Counts) -> bool {
        let (Key::Line { kind, .. } | Key::Type { kind } | Key::Stack { kind, .. }) = key else {
            return false;
        };
        if counts.died_late == 0 && COMMON.contains(&&**kind) {
            return false;
        }
        let gone = self.census.gone.get(kind).copied().unwrap_or(0);
        let grown = self.grown.get(&**kind).copied().unwrap_or(0);
        let row = between(&counts.alive, self.census.intervals.len());
        grown.saturating_sub(gone).saturating_mul(2) < row
    }
}

/// Returns the living objects of all intervals but the first and the last.
fn between(alive: &Alive, intervals: usize) -> u64 {
    let all = alive.0.get(1..intervals.saturating_sub(1)).unwrap_or(&[]);
    all.iter().fold(0, |sum, one| sum.saturating_add(*one))
}

#[cfg(test)]
mod tests;
