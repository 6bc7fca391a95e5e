//! The rows of one census.

use super::{SiteTally, Tally};
use std::collections::HashMap;

/// The most rows that are told apart in one census.
const MOST_ROWS: usize = 1 << 19;
/// The most frames of all their paths.
const MOST_STEPS: usize = 1 << 22;

/// The rows of one census, within bounds: many sites may share one long path, so that the books are small and the rows
/// are not.
#[derive(Default)]
pub(super) struct Rows {
    /// Frames of all paths so far.
    steps: usize,
    /// The row of a kind to which all sites are added that are too many.
    others: HashMap<u32, usize>,
}

impl Rows {
    /// Adds a row; with its innermost line alone where paths take too much, without a line where there are too many
    /// rows. No count is lost.
    pub(super) fn add(&mut self, tally: &mut Tally, kind: u32, mut row: SiteTally) {
        if tally.sites.len() >= MOST_ROWS {
            tally.cut += 1;
            if let Some(row_of_kind) = self.others.get(&kind) {
                let counts = &mut tally.sites[*row_of_kind].counts;
                counts.born = counts.born.saturating_add(row.counts.born);
                counts.live = counts.live.saturating_add(row.counts.live);
                counts.bytes = counts.bytes.saturating_add(row.counts.bytes);
                return;
            }
            self.others.insert(kind, tally.sites.len());
            row.path = Vec::new();
        } else if row.path.len() > 1 && self.steps + row.path.len() > MOST_STEPS {
            tally.cut += 1;
            row.path = vec![row.path.swap_remove(0)];
        }
        self.steps += row.path.len();
        tally.sites.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::*;
    use std::sync::Arc;
    use wire::Counts;

    const DEPTH: usize = 64;

    /// Books of some pages that say how often as many rows as they can: rows are bounded, and no count is lost.
    #[test]
    fn rows_are_bounded_and_their_sums_are_not() {
        let mut tally = Tally::default();
        let mut rows = Rows::default();
        let line = Arc::new(Line {
            path: "a.rb".into(),
            line: 1,
            method: "m".into(),
        });
        let more = 1000;
        let all = MOST_ROWS + more;
        for _ in 0..all {
            let counts = Counts {
                born: 2,
                live: 1,
                bytes: 40,
            };
            let row = SiteTally {
                path: vec![line.clone(); DEPTH],
                kind: "String".into(),
                internal: false,
                counts,
            };
            rows.add(&mut tally, 1, row);
        }
        assert_eq!(tally.sites.len(), MOST_ROWS + 1);
        let steps: usize = tally.sites.iter().map(|row| row.path.len()).sum();
        assert!(steps <= MOST_STEPS + MOST_ROWS, "{steps}");
        let born: u64 = tally.sites.iter().map(|row| row.counts.born).sum();
        assert_eq!(born, 2 * all as u64);
        assert_eq!(tally.cut as usize, all - MOST_STEPS / DEPTH);
    }
}
