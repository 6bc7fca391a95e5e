//! Decides how much of each ring is read at once: as much as can be handled soon, because a thread whose ring is full waits until the ring
//! is read again, and after `--max-wait` drops its record. Used by `guest`.

use std::time::{Duration, Instant};

/// The longest and the shortest wanted time from one look at a ring to the next: well below the 100 ms that a thread waits, also if other
/// programs need the processor.
const LONG: Duration = Duration::from_millis(15);
const SHORT: Duration = Duration::from_millis(4);
/// The least number of words that are read.
pub const LEAST: u64 = 2048;

/// How many words of each of one guest's rings are read at the next look: half as many after a look that took long, twice as many after a short
/// one.
pub struct Pace {
    words: u64,
    most: u64,
    began: Option<Instant>,
}

impl Pace {
    /// Returns a pace of `most` words, which are those of a whole ring.
    pub fn new(most: u64) -> Self {
        Pace {
            words: most,
            most,
            began: None,
        }
    }

    /// Notes that a look begins, and returns how many words of each ring it reads.
    pub fn next(&mut self) -> u64 {
        let now = Instant::now();
        if let Some(began) = self.began.replace(now) {
            self.words = match now - began {
                took if took > LONG => (self.words / 2).max(LEAST),
                took if took < SHORT => (self.words * 2).min(self.most),
                _ => self.words,
            };
        }
        self.words
    }

    /// Notes whether the look found anything. If not, the caller pauses, and the time until the next look means nothing.
    pub fn read(&mut self, any: bool) {
        if !any {
            self.began = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_slow_reads_less_and_who_rests_does_not_count() {
        let mut pace = Pace::new(1 << 17);
        assert_eq!(pace.next(), 1 << 17);
        pace.began = pace.began.map(|began| began - LONG * 2);
        assert_eq!(pace.next(), 1 << 16);
        pace.began = pace.began.map(|began| began - LONG * 2);
        pace.read(false);
        assert_eq!(pace.next(), 1 << 16);
        pace.read(true);
        assert_eq!(pace.next(), 1 << 17);
        for _ in 0..40 {
            pace.began = pace.began.map(|began| began - LONG * 2);
            pace.next();
        }
        assert_eq!(pace.words, LEAST);
    }
}
