//! Sets found in a process's memory: its read-only anonymous mappings, page by page. Used by `apply`, `finder` and
//! others here, and by crate `lancet`.
//!
//! A set is a mapping of its own, but the kernel may have merged it with a read-only neighbour, so it can begin at any page. A program that
//! has made a gigabyte of its memory read-only has 262,144 pages to read, which takes some tenth of a second, too long for a stop. So the
//! search happens before the stop, and in the stop only new memory is searched:
//!
//! ```text
//!   runs          mappings read ─► nobody traces it? ─► each page looked at        ranges, and where sets begin
//!   stands still  mappings read ─► pages that are in none of these ranges, and the sets that were found, read again
//! ```
//!
//! A set that another lancet makes meanwhile is found in each case. It is mapped after this lancet has read the mappings, and then lies in
//! none of the ranges; or the other lancet still traces the process when this lancet checks for a tracer, and then that search does not
//! count; or the other lancet has released the process, and then the set's header was there before its page was read.

use crate::error::Result;
use crate::guest::Guest;
use crate::journal::{Kind, Set, read};
use process::guest::Status;
use process::maps::{Mapping, Maps};
use process::memory::GuestMemory;
use std::ops::Range;

/// The most sets that are read.
const MOST_SETS: usize = 4096;
/// Pages that are looked at for a header: those of 1 GiB.
const MOST_PAGES: usize = 1 << 18;
const PAGE: u64 = wire::PAGE as u64;

/// Where sets were found while the process ran.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Memory that contains no further sets.
    looked: Vec<Range<u64>>,
    bases: Vec<u64>,
}

impl Search {
    /// Searches a process that runs.
    pub fn before_stop(guest: &Guest) -> Result<Self> {
        let ranges = readable(&guest.maps()?);
        if Status::read(guest.pid())?.tracer != 0 {
            return Ok(Self::default());
        }
        let sets = found(&guest.memory, pages(&ranges));
        Ok(Search {
            bases: sets.iter().map(|set| set.base).collect(),
            looked: ranges,
        })
    }

    /// The sets of the process, which stands still and has these mappings.
    pub fn sets(&self, memory: &GuestMemory, maps: &Maps) -> Vec<Set> {
        let now = readable(maps);
        let is_there = |base: &u64| now.iter().any(|range| range.contains(base));
        let known = self.bases.iter().copied().filter(is_there);
        let new = without(&now, &self.looked);
        found(memory, known.chain(pages(&new)))
    }
}

impl Set {
    /// All sets of a process.
    pub fn all(memory: &GuestMemory, maps: &Maps) -> Vec<Set> {
        Search::default().sets(memory, maps)
    }

    /// Whether it is of patches.
    pub fn is_of_patches(&self) -> bool {
        matches!(self.kind, Kind::Patches | Kind::Together)
    }

    /// The sets of a process that are of patches.
    pub fn of_patches(memory: &GuestMemory, maps: &Maps) -> Vec<Set> {
        let mut all = Set::all(memory, maps);
        all.retain(Set::is_of_patches);
        all
    }
}

/// How many bytes of a process's read-only memory are not searched for patches, because it has too much of it.
///
/// # Errors
/// Its mappings cannot be read.
pub fn unsearched(guest: &Guest) -> Result<u64> {
    let ranges = readable(&guest.maps()?);
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    Ok(bytes.saturating_sub(MOST_PAGES as u64 * PAGE))
}

/// Read-only anonymous memory, in which each set is.
fn readable(maps: &Maps) -> Vec<Range<u64>> {
    let is_one = |mapping: &&Mapping| {
        let p = mapping.permissions;
        p.read && !p.write && !p.execute && !p.shared && !mapping.is_file()
    };
    let all = maps.iter().filter(is_one);
    all.map(|mapping| mapping.start..mapping.end).collect()
}

/// Their pages: the first of each range, where nearly all sets begin, in front of all others.
fn pages(ranges: &[Range<u64>]) -> impl Iterator<Item = u64> {
    let first = ranges.iter().map(|range| range.start);
    let rest = ranges
        .iter()
        .flat_map(|range| (range.start + PAGE..range.end).step_by(wire::PAGE));
    first.chain(rest)
}

fn found(memory: &GuestMemory, pages: impl Iterator<Item = u64>) -> Vec<Set> {
    let sets = pages.take(MOST_PAGES).filter_map(|base| read(memory, base));
    let mut sets: Vec<Set> = sets.take(MOST_SETS).collect();
    sets.sort_by_key(|set| set.base);
    sets
}

/// What of these ranges is in none of the others. Both are sorted, and no two of one list overlap.
fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let from = others.partition_point(|other| other.end <= at);
        for other in others[from..]
            .iter()
            .take_while(|one| one.start < range.end)
        {
            if at < other.start {
                left.push(at..other.start);
            }
            at = other.end;
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_looked_at() {
        let looked = [10..20, 30..40, 60..70];
        assert!(without(&looked, &looked).is_empty());
        assert_eq!(without(&looked, &[]), looked);
        let now = [5..20, 28..45, 50..55, 62..66, 90..99];
        assert_eq!(
            without(&now, &looked),
            [5..10, 28..30, 40..45, 50..55, 90..99]
        );
        assert_eq!(
            without(&[0..80, 80..100], &looked),
            [0..10, 20..30, 40..60, 70..80, 80..100]
        );
    }

    #[test]
    fn the_first_page_of_each_mapping_comes_first() {
        let all: Vec<u64> = pages(&[0..3 * PAGE, 8 * PAGE..10 * PAGE]).collect();
        assert_eq!(all, [0, 8, 1, 2, 9].map(|page| page * PAGE));
    }
}
