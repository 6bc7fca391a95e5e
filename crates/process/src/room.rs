//! Determines how much of a stack's mapping has been used, and what lies below it.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::descriptors::open_briefly;
use crate::maps::{Mapping, Maps, PAGE};

/// Limit of the bytes of one mapping that count as a stack, because the kernel may have merged it with the mapping
/// above.
pub(crate) const LARGEST_STACK: u64 = 64 << 20;

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
    /// Looks at the mapping of a stack, page by page through `/proc/PID/pagemap` (kernel
    /// `Documentation/admin-guide/mm/pagemap.rst`): bit 63 says present, bit 62 swapped out.
    pub fn of(pid: i32, maps: &Maps, mapping: &Range<u64>) -> Room {
        let below = mapping
            .start
            .checked_sub(1)
            .and_then(|below| maps.find(below));
        let guard = below
            .filter(|below| !below.permissions.read && !below.permissions.write)
            .map_or(0, Mapping::size);
        let mut room = Room {
            mapped: mapping.end.saturating_sub(mapping.start),
            guard,
            high_water: 0,
        };
        let Ok(pagemap) = open_briefly(format!("/proc/{pid}/pagemap")) else {
            return room;
        };
        let pages = room.mapped / PAGE;
        let mut entries =
            vec![0; usize::try_from(pages.min(LARGEST_STACK / PAGE) * 8).unwrap_or(0)];
        let first = mapping.end / PAGE - entries.len() as u64 / 8;
        if pagemap.read_exact_at(&mut entries, first * 8).is_ok() {
            let touched = |entry: &[u8; 8]| u64::from_le_bytes(*entry) >> 62 != 0;
            let untouched = entries
                .as_chunks::<8>()
                .0
                .iter()
                .take_while(|entry| !touched(entry))
                .count();
            room.high_water = mapping.end - (first + untouched as u64) * PAGE;
        }
        room
    }
}
