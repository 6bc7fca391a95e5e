//! The figures of a row, and the difference of two of them.
//!
//! Sums saturate: the numbers come from a guest's memory, and a damaged one must give a wrong
//! line, not a panic.

use std::iter::Sum;
use std::ops::{AddAssign, Sub};

use crate::analysis::census::{SiteCount, TypeCount};

/// What a row, a remainder or a total counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects made while we watched.
    pub born: u64,
    /// Objects that live.
    pub live: u64,
    /// Objects made while we watched that are gone. A sum of its own, not `born - live` of the
    /// sums: objects from before we came live without having been seen born.
    pub dead: u64,
    /// Memory the living ones hold.
    pub bytes: u64,
}

/// How much [`Counts`] changed between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Objects made in the interval.
    pub born: i64,
    /// By how many the living increased.
    pub live: i64,
    /// By how much their memory increased.
    pub bytes: i64,
}

impl From<&SiteCount> for Counts {
    fn from(site: &SiteCount) -> Self {
        Self {
            born: site.born,
            live: site.live,
            dead: site.born.saturating_sub(site.live),
            bytes: site.bytes,
        }
    }
}

impl From<&TypeCount> for Counts {
    fn from(before: &TypeCount) -> Self {
        Self {
            born: 0,
            live: before.live,
            dead: 0,
            bytes: before.bytes,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.born = self.born.saturating_add(other.born);
        self.live = self.live.saturating_add(other.live);
        self.dead = self.dead.saturating_add(other.dead);
        self.bytes = self.bytes.saturating_add(other.bytes);
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
        }
    }
}

impl AddAssign for Delta {
    fn add_assign(&mut self, other: Self) {
        self.born = self.born.saturating_add(other.born);
        self.live = self.live.saturating_add(other.live);
        self.bytes = self.bytes.saturating_add(other.bytes);
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
