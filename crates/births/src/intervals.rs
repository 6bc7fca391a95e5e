//! The time of watching, divided into a few intervals of about the same length, so that a census tells how many of the
//! births of each still live. Used by `attached`, `census` and others here, and by crate `lancet`.
//!
//! ```text
//!   epochs      0   1   2   3   4   5   6   7   8   9      each birth carries the number of its own
//!   intervals   0   0   1   1   2   2   3   3   4   5      what a census counts by, at most 8
//! ```
//!
//! When there are eight intervals and a ninth is due, each two are joined, and from then on intervals are twice as long. So as soon as four
//! have begun there are between four and eight, however long the process has been watched. The numbers of epochs suffice for ever, because
//! each doubling of the time takes only four of them.
//!
//! To begin an interval, a word is written into the memory of the guest (`Ledger::epoch`). The guest is not stopped.

use std::time::{Duration, Instant};
use wire::ledger::INTERVALS;
use wire::slots::EPOCHS;

/// The intervals of one run, which all its guests share, and the epochs that belong to each. When [`Intervals::pass`] has begun one, every
/// guest must be informed; otherwise its births are counted in the interval before.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// How long an interval has to be before the next one is due; it doubles at each join.
    length: Duration,
    /// The time at which each interval began; never empty.
    starts: Vec<Instant>,
    epoch: u32,
    joins: u32,
    of_epoch: [u8; EPOCHS as usize],
}

/// The intervals of one guest: those since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfGuest {
    /// Index of the interval in which the guest was opened.
    pub first: usize,
    /// Seconds that each interval from `first` on lasted, the current one up to now.
    pub lengths: Vec<f64>,
    /// When the interval behind `first` began; `None` = it has not begun.
    pub second: Option<Instant>,
    /// Index of the last interval, which has not ended.
    pub current: usize,
    /// How many times each two intervals have been joined until now.
    pub joins: u32,
}

impl Intervals {
    /// Begins the first interval now; intervals are `length` long until the first join.
    pub fn new(length: Duration) -> Self {
        Intervals {
            length,
            starts: vec![Instant::now()],
            epoch: 0,
            joins: 0,
            of_epoch: [0; EPOCHS as usize],
        }
    }

    /// Returns the time at which the last interval began.
    pub fn began(&self) -> Instant {
        self.starts[self.starts.len() - 1]
    }

    /// Whether the last interval has been long enough for the next to begin.
    pub fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began()) >= self.length && self.epoch + 1 < EPOCHS
    }

    /// Begins a new interval if it is due, and returns whether it was; then the guests must be informed.
    pub fn pass(&mut self, now: Instant) -> bool {
        if !self.is_due(now) {
            return false;
        }
        if self.starts.len() == INTERVALS {
            self.join();
            if !self.is_due(now) {
                return false;
            }
        }
        self.starts.push(now);
        self.epoch += 1;
        self.of_epoch[self.epoch as usize] = self.starts.len() as u8 - 1;
        true
    }

    /// Joins each two intervals to one, which is twice as long.
    fn join(&mut self) {
        let mut at = 0;
        self.starts.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        for interval in &mut self.of_epoch {
            *interval /= 2;
        }
        self.length *= 2;
        self.joins += 1;
    }

    /// The epoch of births from now on.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The index of the interval to which each epoch belongs, by the number of the epoch.
    pub fn of_epochs(&self) -> &[u8] {
        &self.of_epoch
    }

    /// Returns the intervals until `now` of a guest that has been watched since `since`.
    pub fn of_guest(&self, since: Instant, now: Instant) -> OfGuest {
        let began = |start: &&Instant| **start <= since;
        let first = self.starts.iter().take_while(began).count().max(1) - 1;
        let ends = self.starts.iter().skip(first + 1).chain([&now]);
        let lengths = self.starts[first..].iter().zip(ends).map(|(start, end)| {
            let start = (*start).max(since);
            end.saturating_duration_since(start).as_secs_f64()
        });
        OfGuest {
            first,
            lengths: lengths.collect(),
            second: self.starts.get(first + 1).copied(),
            current: self.starts.len() - 1,
            joins: self.joins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long it goes on, there are between four and eight, of about the same length, and every epoch belongs to
    /// the interval in which it was.
    #[test]
    fn there_are_always_some_and_never_many() {
        let mut all = Intervals::new(Duration::from_secs(1));
        let begun = all.starts[0];
        let mut epochs = vec![0.0];
        for second in 1..100_000u32 {
            let now = begun + Duration::from_secs(second.into());
            if all.pass(now) {
                epochs.push(f64::from(second));
            }
            let OfGuest { first, lengths, .. } = all.of_guest(begun, now);
            assert_eq!(first, 0);
            assert!(lengths.len() <= INTERVALS);
            assert!(second < 4 || lengths.len() >= 4, "{second}: {lengths:?}");
            let sum: f64 = lengths.iter().sum();
            assert!((sum - f64::from(second)).abs() < 0.001);
            if !second.is_multiple_of(977) {
                continue;
            }
            for (epoch, start) in epochs.iter().enumerate() {
                let before = all
                    .starts
                    .iter()
                    .filter(|at| at.saturating_duration_since(begun).as_secs_f64() <= *start);
                assert_eq!(usize::from(all.of_epoch[epoch]), before.count() - 1);
            }
        }
        assert!(epochs.len() < 100, "{}", epochs.len());
    }

    #[test]
    fn a_guest_that_came_later_has_its_own() {
        let mut all = Intervals::new(Duration::from_secs(1));
        let begun = all.starts[0];
        for second in 1..4 {
            assert!(all.pass(begun + Duration::from_secs(second)));
        }
        let since = begun + Duration::from_millis(2250);
        let now = begun + Duration::from_millis(3500);
        let guest = all.of_guest(since, now);
        assert_eq!((guest.first, guest.lengths), (2, vec![0.75, 0.5]));
        assert_eq!(guest.second, Some(begun + Duration::from_secs(3)));
    }
}
