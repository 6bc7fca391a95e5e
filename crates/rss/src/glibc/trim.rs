//! What `malloc_trim(0)` would give back, computed and not tried. Used by `glibc`.
//!
//! It joins the chunks of the fastbins with their free neighbours, and of each free chunk gives back the whole pages behind its links
//! (`mtrim` in `malloc/malloc.c`); of the main arena also the end, by `brk` (`systrim`).

use std::ops::Range;

use process::maps::PAGE;

/// `sizeof(struct malloc_chunk)`: sizes and links at the start of a free chunk, which stay.
const LINKS: u64 = 48;

/// Returns how many of the bytes from the first address up to the second are in memory.
pub type InMemory<'a> = &'a dyn Fn(u64, u64) -> u64;

/// The whole pages within free chunks, those that follow upon each other joined.
pub fn pages(mut free: Vec<Range<u64>>) -> Vec<Range<u64>> {
    free.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in free {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
        .into_iter()
        .filter_map(|range| {
            let start = range
                .start
                .checked_add(LINKS)?
                .checked_next_multiple_of(PAGE)?;
            let end = range.end / PAGE * PAGE;
            (start < end).then_some(start..end)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_behind_the_links_are_given_back() {
        let given = |free: &[(u64, u64)]| {
            let free = free.iter().map(|(start, end)| *start..*end);
            let pages = pages(free.collect()).into_iter();
            pages
                .map(|range| (range.start, range.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(given(&[(0x1000, 0x3000)]), [(0x2000, 0x3000)]);
        assert_eq!(given(&[(0x1fd0, 0x3010)]), [(0x2000, 0x3000)]);
        assert_eq!(given(&[(0x1fe0, 0x3010)]), []);
        // Two that only together span a page.
        assert_eq!(
            given(&[(0x2040, 0x3ff0), (0x1040, 0x2040)]),
            [(0x2000, 0x3000)]
        );
    }
}
