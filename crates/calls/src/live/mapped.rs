//! Assigns to each stack a number, under which calls are open. Used by `lookup`.
//!
//! The main thread's mapping grows downward, and if the kernel was not asked, a single page stands for its mapping. Later ranges are
//! therefore laid around the known ones.

use std::collections::BTreeMap;
use std::ops::Range;

/// The ranges of one guest's addresses that are known to be stacks, each with its number. An address keeps its number whatever is learned
/// later; otherwise the calls that are open under it would never be seen to return.
#[derive(Debug, Default)]
pub struct Mapped {
    /// End and number of each range, by its start.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Ranges that were found last, each with its number: one for each part of the address space.
    recent: [(Range<u64>, u64); RECENT],
}

/// Number of ranges that are found without the tree.
const RECENT: usize = 16;

/// Index in `recent` of an address: parts are 8 MiB long, so a stack of the usual size lies in one or two.
const fn part(at: u64) -> usize {
    (at >> 23) as usize % RECENT
}

impl Mapped {
    /// Returns the number of the stack that holds an address.
    pub fn find(&mut self, at: u64) -> Option<u64> {
        let (range, number) = &self.recent[part(at)];
        if range.contains(&at) {
            return Some(*number);
        }
        let (start, (end, number)) = self.ranges.range(..=at).next_back()?;
        if at >= *end {
            return None;
        }
        self.recent[part(at)] = (*start..*end, *number);
        Some(*number)
    }

    /// Notes a range that is one mapping of the guest, or lies in one.
    pub fn learn(&mut self, range: Range<u64>) {
        self.recent = Default::default();
        let below = self.ranges.range(..range.end).rev();
        let over: Vec<_> = below
            .take_while(|(_, (end, _))| *end > range.start)
            .map(|(start, (end, number))| (*start, *end, *number))
            .collect();
        // The known range with the lowest address gives its number.
        let all = over.first().map_or(range.start, |(.., number)| *number);
        let mut end = range.end;
        for (start, old_end, number) in over {
            self.ranges.remove(&start);
            if number == all {
                continue;
            }
            let start = start.max(range.start);
            if old_end < end {
                self.ranges.insert(old_end, (end, all));
            }
            self.ranges.insert(start, (old_end.min(end), number));
            end = start;
        }
        if range.start < end {
            self.ranges.insert(range.start, (end, all));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_grows_is_the_same() {
        let mut mapped = Mapped::default();
        mapped.learn(0x8000..0x9000);
        mapped.learn(0x2000..0x3000);
        mapped.learn(0x4000..0x9000);
        assert_eq!(mapped.find(0x8800), Some(0x8000));
        assert_eq!(mapped.find(0x4000), Some(0x8000));
        assert_eq!(mapped.find(0x3fff), None);
        assert_eq!(mapped.find(0x9000), None);
        assert_eq!(mapped.find(0x2fff), Some(0x2000));
        assert_eq!(mapped.ranges.len(), 2);
    }

    #[test]
    fn pages_keep_their_numbers_in_what_is_learned_around_them() {
        let mut mapped = Mapped::default();
        mapped.learn(0x5000..0x6000);
        mapped.learn(0x7000..0x8000);
        mapped.learn(0x4000..0x9000);
        let numbers = [0x4000, 0x5000, 0x6000, 0x7000, 0x8000].map(|at| mapped.find(at));
        let [inner, outer] = [Some(0x5000), Some(0x7000)];
        assert_eq!(numbers, [outer, inner, outer, outer, outer]);
    }

    #[test]
    fn a_mapping_that_reached_further_is_gone_there() {
        let mut mapped = Mapped::default();
        mapped.learn(0x4000..0x9000);
        mapped.learn(0x3000..0x6000);
        assert_eq!(mapped.find(0x5000), Some(0x4000));
        assert_eq!(mapped.find(0x3000), Some(0x4000));
        assert_eq!(mapped.find(0x7000), None);
    }
}
