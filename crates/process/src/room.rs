//! Determines how much of a stack's mapping has been used, and what lies below it. Used by `snapshot`, and by the
//! crates `frames` and `report`.

use std::ops::Range;

use crate::maps::{Maps, PAGE};
use crate::pagemap::{LARGEST_STACK, Page, Pagemap};

/// Limit of the bytes of guards that are counted below a stack.
const LARGEST_GUARD: u64 = 1 << 20;

/// The room that a stack has: its mapping, the part that was ever used, and the guard below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// The size of the mapping.
    pub mapped: u64,
    /// Number of unreadable bytes right below it, which a deeper stack would reach; 0 for a stack that the kernel
    /// lets grow.
    pub guard: u64,
    /// Distance from the outer end to the furthest page that has ever been touched (and not been given back).
    pub high_water: u64,
}

impl Room {
    /// Looks at a stack ([`stack_around`](crate::pagemap::stack_around)), page by page.
    pub fn of(pid: i32, maps: &Maps, stack: &Range<u64>) -> Room {
        let mut room = Room {
            mapped: stack.end.saturating_sub(stack.start),
            guard: 0,
            high_water: 0,
        };
        let pagemap = Pagemap::open(pid);
        let pages = |range: Range<u64>| match &pagemap {
            Ok(pagemap) => pagemap.pages(&range),
            Err(_) => Vec::new(),
        };
        let below = stack.start.checked_sub(1);
        room.guard = match below.and_then(|below| maps.find(below)) {
            Some(below) if !below.permissions.read && !below.permissions.write => below.size(),
            Some(below) => {
                let low = below.start.max(stack.start.saturating_sub(LARGEST_GUARD));
                let below = pages(low..stack.start);
                let guards = below.iter().rev().take_while(|page| **page == Page::Guard);
                guards.count() as u64 * PAGE
            }
            None => 0,
        };
        let first = stack.end - room.mapped.min(LARGEST_STACK);
        let pages = pages(first..stack.end);
        if pages.len() as u64 * PAGE == stack.end - first {
            let untouched = pages.iter().take_while(|page| **page == Page::Nowhere);
            room.high_water = (pages.len() - untouched.count()) as u64 * PAGE;
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::stack_around;
    use crate::pagemap::tests::with_guards;

    #[test]
    fn a_stack_has_what_lies_above_its_guard() {
        let Some(start) = with_guards(40, &[0, 9, 10, 30]) else {
            return;
        };
        let pid = std::process::id() as i32;
        let maps = Maps::read(pid).expect("ours");
        let pagemap = Pagemap::open(pid).expect("ours");
        let room = |page: u64| {
            let stack = stack_around(Some(&pagemap), &maps, start + page * PAGE);
            let room = Room::of(pid, &maps, &stack);
            [room.mapped, room.guard, room.high_water].map(|bytes| bytes / PAGE)
        };
        assert_eq!(room(5), [8, 1, 8]);
        assert_eq!(room(29), [19, 2, 19]);
    }
}
