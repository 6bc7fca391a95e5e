//! What one look at one guest found, and the figures of which each row of it and of a report consists. [`crate::census`] makes a
//! [`Census`] of what the agent has counted; the other modules here compute with it.
//!
//! Strings are shared (`Arc<str>`): a few thousand files, methods and type names stand behind any number of sites. Sums
//! saturate: the numbers come from a guest's memory, and a damaged one must give a wrong line, not a panic.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::iter::Sum;
use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use process::rss::Rss;
use vm::Language;

use wire::ledger::{INTERVALS, Uncollected};

/// One place in Ruby code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The file as the VM names it; bytes that are not UTF-8 are already replaced.
    pub path: Arc<str>,
    /// The line, from 1; 0 where the VM knows none (a function written in C).
    pub line: u32,
    /// The method or block name.
    pub method: Arc<str>,
}

/// In the place of a type: what was made is a block of the process's allocator ([`Unit::Block`]).
pub const BLOCK: &str = "block";

/// The objects of one type made at one place while we watched.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteCount {
    /// Innermost first. Exactly one without `--stacks`; none when the VM made the object outside
    /// any Ruby code. Of a [`BLOCK`] the native function, and behind it the script's line that was running, if that is known.
    pub frames: Vec<Arc<Frame>>,
    /// The name of the object's type.
    pub kind: Arc<str>,
    /// An object of the VM's own, which Ruby code never sees (IMEMO and the like).
    pub internal: bool,
    /// How many were made, how many of them live, and what these hold.
    pub counts: Counts,
}

/// The living objects of one type that existed before lancet came; the place where they were made is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeCount {
    /// The name of the type.
    pub kind: Arc<str>,
    /// An object of the VM's own, which Ruby code never sees.
    pub internal: bool,
    /// How many live, and what they hold; nobody saw one made or die.
    pub counts: Counts,
}

/// Growth of the resident memory that the objects do not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// By how many bytes the resident memory has grown steadily since the first look, without what lancet has mapped.
    pub grown: u64,
    /// By how many bytes all objects and empty slots of the heap have grown meanwhile; 0 if they shrank.
    pub objects: u64,
}

/// The memory of a guest, as its kernel and its VM count it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The resident memory of the process, by what it is used for.
    pub rss: Rss,
    /// Heap slots of the VM without an object, resident or not.
    pub empty: u64,
    /// What lancet has mapped for its tables.
    pub agent: u64,
}

/// One look at one guest, or at several that were merged (see [`crate::analysis::merge()`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    /// The guest; [`crate::analysis::MERGED_PID`] when several were merged.
    pub pid: i32,
    /// The number of the watch that this is a look of; 0 when several were merged. A process that runs another program, and
    /// one that has got the id of another, are watched anew, and what they hold is no growth of what was there before.
    pub watch: u64,
    /// The words of the guest's command line; when several were merged, all their different ones as one text.
    pub command: Vec<String>,
    /// The directory that it works in, which people leave out when they name its files; empty if it is not known, or if
    /// several guests that were merged work in several.
    pub root: String,
    /// The name of the guest's language; empty when guests of several languages were merged.
    pub language: &'static str,
    /// The version of the guest's VM; when several were merged, all their different ones, each behind its language if these differ.
    pub version: String,
    /// Seconds for which births had been counted.
    pub seconds: f64,
    /// When it was taken, if that is known.
    pub taken_at: Option<SystemTime>,
    /// Objects born while we watched, by place and type.
    pub sites: Vec<SiteCount>,
    /// Living objects that were born before lancet came, by type.
    pub before: Vec<TypeCount>,
    /// By type, how many objects from before lancet came have died since about the end of the first interval.
    pub gone: HashMap<Arc<str>, u64>,
    /// The types of which living objects are threads of the VM, whatever their classes are called: their stacks are no object's.
    pub threads: BTreeSet<Arc<str>>,
    /// Length in seconds of each interval by which births are told apart, the earliest first; at most
    /// [`INTERVALS`]. The last one ended with this look.
    pub intervals: Vec<f64>,
    /// How long the collection before the count held the guest; `None` when none was run.
    pub gc_pause: Option<Duration>,
    /// How long the walk over the heap held the guest.
    pub walk_pause: Duration,
    /// How many looks at the guest there have been, this one included; 0 if that is not known.
    pub looks: u32,
    /// How long all these looks together held the guest; of several guests, the one that was held longest at each look
    /// counts.
    pub paused: Duration,
    /// What was lost or refused.
    pub losses: Vec<Loss>,
    /// What the process's memory is used for; `None` if that is not known, or if several guests were merged, which share some
    /// memory.
    pub memory: Option<Memory>,
    /// Growth of the resident memory that the objects do not explain; `None` if there is none, or it is not known.
    pub resident: Option<Resident>,
    /// Whether there were enough looks, spread over the time, to see what single objects and the whole process come to hold.
    pub followed: bool,
    /// The program has switched the collector off, so no garbage is ever freed.
    pub collector_off: bool,
    /// Why the collector did not run before the count, so that objects that nothing refers to any more may be counted as living.
    pub uncollected: Uncollected,
    /// What is counted.
    pub unit: Unit,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Objects of a VM, or blocks of its own heap.
    #[default]
    Object,
    /// Blocks of the allocator of the process, each birth and death of which is counted ([`crate::native`]).
    Block,
}

impl Census {
    /// Whether objects that nothing refers to any more may be counted as living.
    pub fn includes_garbage(&self) -> bool {
        self.uncollected != Uncollected::Ran
    }

    /// What is counted, one and many of it.
    pub fn counted(&self) -> [&'static str; 2] {
        if self.unit == Unit::Block {
            return ["block", "blocks"];
        }
        let mut all = Language::ALL.iter().map(|one| one.description());
        all.find(|one| one.name == self.language)
            .map_or(["object", "objects"], |one| one.counted)
    }

    /// How many births were not counted.
    pub fn unseen(&self) -> u64 {
        self.lost(Lost::Births)
            .saturating_add(self.lost(Lost::BirthsAndDeaths))
    }

    /// How many of one kind were lost.
    pub(super) fn lost(&self, what: Lost) -> u64 {
        let losses = self.losses.iter().filter(|loss| loss.what == what);
        let counts = losses.filter_map(|loss| loss.count);
        counts.fold(0, u64::saturating_add)
    }

    /// Whether both are looks of the same watch of the same process, so that growth can be computed.
    pub fn is_of_same(&self, other: &Census) -> bool {
        (self.pid, self.watch) == (other.pid, other.watch)
    }
}

/// The kinds of incompleteness of a census.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Births that the agent has not counted, for want of memory and for other reasons.
    Births,
    /// Births and deaths that the agent has not counted: what has died may count as living.
    BirthsAndDeaths,
    /// Births while the living were counted.
    BirthsInCount,
    /// Rows that were merged because there are too many.
    Rows,
    /// Sizes of objects, replaced by that of the heap slot.
    Sizes,
    /// The heap at the end: it was counted from outside, or not completely.
    Heap,
    /// Lines of scripts.
    Lines,
}

/// One loss of a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which part of the census is incomplete.
    pub what: Lost,
    /// How many births, rows or objects are affected, where that is known.
    pub count: Option<u64>,
    /// What is lacking and why, as a sentence for people.
    pub text: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Objects that live, by the interval in which they were made, the earliest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alive(pub [u64; INTERVALS]);

impl Alive {
    /// Returns the same objects with `intervals` empty intervals before theirs, for a guest that was opened
    /// later than another.
    pub(crate) fn later_by(mut self, intervals: usize) -> Self {
        self.0.rotate_right(intervals.min(INTERVALS));
        self
    }
}

impl AddAssign for Alive {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What a row, a remainder or a total counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects made while we watched.
    pub born: u64,
    /// Objects that live, those from before lancet came included.
    pub live: u64,
    /// Objects made while we watched that are gone. This is a sum of its own and not `born - live` of the sums,
    /// because objects from before lancet came are in `live` and not in `born`. [`Counts::of_births`] computes it, and sums add
    /// it up; nobody else sets it, so a row of which `born` or `live` changes is made anew by that.
    pub dead: u64,
    /// Bytes that the living ones use, as `ObjectSpace.memsize_of` counts them.
    pub bytes: u64,
    /// Living objects that were made while we watched, by the interval of their birth.
    pub alive: Alive,
    /// Objects that are gone although they had outlived the interval of their birth, as far as earlier looks
    /// have seen it.
    pub died_late: u64,
    /// Estimate of the bytes that objects made while we watched used soon after their birth: the mean of a few that were measured then,
    /// times their number. What an object got later is not included.
    pub allocated: u64,
    /// By how many bytes what its large objects hold has grown steadily, look by look; 0 where none did.
    pub grown: u64,
    /// How many objects that are.
    pub growing: u64,
}

/// How much [`Counts`] changed between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Objects made in the interval.
    pub born: i64,
    /// By how many the living increased.
    pub live: i64,
    /// By how many bytes the memory of the living increased.
    pub bytes: i64,
    /// Estimate of the bytes that objects made in the interval used soon after their birth.
    pub allocated: i64,
}

impl Counts {
    /// Those of objects of which all were made while we watched.
    pub fn of_births(born: u64, live: u64, bytes: u64) -> Self {
        Self {
            born,
            live,
            dead: born.saturating_sub(live),
            bytes,
            ..Self::default()
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.born = self.born.saturating_add(other.born);
        self.live = self.live.saturating_add(other.live);
        self.dead = self.dead.saturating_add(other.dead);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.alive += other.alive;
        self.died_late = self.died_late.saturating_add(other.died_late);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.grown = self.grown.saturating_add(other.grown);
        self.growing = self.growing.saturating_add(other.growing);
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

impl Sub for Counts {
    type Output = Delta;

    fn sub(self, older: Self) -> Delta {
        Delta {
            born: difference(self.born, older.born),
            live: difference(self.live, older.live),
            bytes: difference(self.bytes, older.bytes),
            // Both are estimates: they may differ where nothing was born, and the later may be the lower.
            allocated: if self.born > older.born {
                difference(self.allocated, older.allocated).max(0)
            } else {
                0
            },
        }
    }
}

impl AddAssign for Delta {
    fn add_assign(&mut self, other: Self) {
        self.born = self.born.saturating_add(other.born);
        self.live = self.live.saturating_add(other.live);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated = self.allocated.saturating_add(other.allocated);
    }
}

impl Sum for Delta {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// `new - old`, clamped to what an `i64` holds.
fn difference(new: u64, old: u64) -> i64 {
    let clamp = |distance: u64| i64::try_from(distance).unwrap_or(i64::MAX);
    if new >= old {
        clamp(new - old)
    } else {
        -clamp(old - new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An estimate of what was allocated changes only with a birth, and never downwards.
    #[test]
    fn nothing_was_allocated_without_a_birth() {
        let of = |born, allocated| Counts {
            born,
            allocated,
            ..Counts::default()
        };
        let allocated = |now: Counts, then: Counts| (now - then).allocated;
        assert_eq!(allocated(of(5, 900), of(3, 500)), 400);
        assert_eq!(allocated(of(3, 900), of(3, 500)), 0);
        assert_eq!(allocated(of(5, 400), of(3, 500)), 0);
        assert_eq!((of(5, 0) - of(7, 0)).born, -2);
    }
}
