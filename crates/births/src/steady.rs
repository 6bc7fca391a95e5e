//! Whether a figure grows steadily from look to look: what one object holds, or the resident memory of a process. Used
//! by `earlier`.
//!
//! ```text
//!   what is appended to for ever      100  140  180  220  260     grows
//!   a cache that fills                100  240  258  260  260     stops
//!   a batch that is dropped           100  180  260   40  120     falls
//! ```

use std::time::{Duration, Instant};

/// Limit of the looks that are kept; with more, every second one but the first is dropped.
const MOST: usize = 32;
/// The least number of looks that show a growth.
const LEAST: usize = 3;
/// The least time between the first and the last of them: an answer that is being written grows, too.
const LEAST_TIME: Duration = Duration::from_secs(5);
/// And the least part of the time of watching that this must be.
const LEAST_PART: u32 = 3;
/// Growth is steady: of the two halves of the time, neither is more than this many times as fast as the other.
const STEADY: f64 = 4.0;

/// Returns whether figures of looks at these times can show that something does not grow: so many, for so long a part of the time that `watched`
/// is, and one of them not near the ends. What grows in each of two parts of the time, one of which is a tenth of it, may have stopped long ago.
pub(crate) fn shows(looks: &[Instant], watched: Duration) -> bool {
    let [first, within @ .., last] = looks else {
        return false;
    };
    let time = last.saturating_duration_since(*first);
    let is_long = time >= LEAST_TIME && time >= watched / LEAST_PART;
    let middle = *first + time / 4..=*first + time / 4 * 3;
    is_long && within.iter().any(|look| middle.contains(look))
}

/// A figure at each look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<(Instant, u64)>);

impl Series {
    /// Notes the figure of a look.
    pub(crate) fn note(&mut self, now: Instant, figure: u64) {
        if self.0.len() >= MOST {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.0.push((now, figure));
    }

    /// Returns by how much the figure has grown from the first look to the last, if it grew steadily for a good part of the time that
    /// `watched` is. `slack` is the part of the growth (as in one 8th) by which it may fall between two looks; 0 = it may not.
    pub(crate) fn grown(&self, watched: Duration, slack: u64) -> Option<u64> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let time = last.0.saturating_duration_since(first.0);
        if self.0.len() < LEAST || time < LEAST_TIME || time < watched / LEAST_PART {
            return None;
        }
        let grown = last.1.checked_sub(first.1)?;
        let may_fall = grown.checked_div(slack).unwrap_or(0);
        let falls = |two: &[(Instant, u64)]| two[1].1.saturating_add(may_fall) < two[0].1;
        if self.0.windows(2).any(falls) {
            return None;
        }
        let half = first.0 + time / 2;
        let within = &self.0[1..self.0.len() - 1];
        let off = |look: &&(Instant, u64)| {
            let (after, before) = (
                look.0.saturating_duration_since(half),
                half.saturating_duration_since(look.0),
            );
            after.max(before)
        };
        let middle = within.iter().min_by_key(off)?;
        let speed = |from: &(Instant, u64), to: &(Instant, u64)| {
            to.1.saturating_sub(from.1) as f64
                / to.0.saturating_duration_since(from.0).as_secs_f64()
        };
        let (early, late) = (speed(first, middle), speed(middle, last));
        let steady = early > 0.0 && late > 0.0 && early.max(late) <= early.min(late) * STEADY;
        steady.then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The growth of a figure that was this at a look every three seconds.
    fn grown(figures: &[u64], slack: u64) -> Option<u64> {
        let (begun, mut series) = (Instant::now(), Series::default());
        for (at, figure) in (0..).zip(figures) {
            series.note(begun + Duration::from_secs(3 * at), *figure);
        }
        series.grown(Duration::from_secs(3 * figures.len() as u64), slack)
    }

    #[test]
    fn what_goes_on_grows_and_what_stops_or_falls_does_not() {
        assert_eq!(grown(&[100, 140, 180, 220, 260], 0), Some(160));
        assert_eq!(grown(&[100, 130, 180, 200, 260, 270, 310], 0), Some(210));
        assert_eq!(grown(&[100, 240, 258, 260, 260], 0), None);
        assert_eq!(grown(&[100, 180, 260, 40, 120], 0), None);
        assert_eq!(grown(&[100, 100, 100, 100], 0), None);
        assert_eq!(grown(&[100, 140, 138, 220, 260], 0), None);
        assert_eq!(grown(&[100, 140, 138, 220, 260], 8), Some(160));
        assert_eq!(grown(&[100, 140], 0), None);
    }

    /// The budget of looks may be spent at the beginning, because each look takes long.
    #[test]
    fn few_looks_or_all_but_one_at_the_beginning_show_nothing() {
        let begun = Instant::now();
        let shown = |seconds: &[u64]| {
            let looks = seconds.iter().map(|at| begun + Duration::from_secs(*at));
            shows(&looks.collect::<Vec<_>>(), Duration::from_secs(12))
        };
        assert!(shown(&[0, 3, 6, 9, 12]));
        assert!(shown(&[1, 6, 12]));
        assert!(!shown(&[1, 2, 12]));
        assert!(!shown(&[1, 12]));
        assert!(!shown(&[8, 9, 10, 11, 12]));
        assert!(!shown(&[]));
    }

    /// However many looks there are, the first and the last are kept.
    #[test]
    fn many_looks_are_thinned_out() {
        let figures: Vec<u64> = (0..1000).collect();
        assert_eq!(grown(&figures, 0), Some(999));
    }

    /// What has grown for a short time only may be a request's own.
    #[test]
    fn what_began_lately_is_left_out() {
        let (begun, mut series) = (Instant::now(), Series::default());
        for second in 50..60 {
            series.note(begun + Duration::from_secs(second), second);
        }
        assert_eq!(series.grown(Duration::from_secs(60), 0), None);
        assert_eq!(series.grown(Duration::from_secs(20), 0), Some(9));
    }
}
