//! The figures of a row, and the difference of two of them.
//!
//! Sums saturate: the numbers come from a guest's memory, and a damaged one must give a wrong
//! line, not a panic.

use std::iter::Sum;
use std::ops::{AddAssign, Sub};

use wire::ledger::INTERVALS;

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
    /// because objects from before lancet came are in `live` and not in `born`.
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
