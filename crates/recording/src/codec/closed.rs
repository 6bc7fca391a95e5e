//! A segment that is to be written, and the numbers that occur in it, for the index.

use crate::segment::Segment;

/// What is written of a stream at once.
pub struct Closed<'a> {
    /// All but what the writer knows: stream, guest, ring, offset, checksum.
    pub head: Segment,
    /// The items of the segment, before they are packed.
    pub bytes: &'a [u8],
    /// The call edges that occur; `None` = others than calls may.
    pub edges: Option<Vec<u32>>,
    /// The lines of scripts and libraries that occur, likewise.
    pub lines: Option<Vec<u32>>,
}

/// The numbers, each given as itself and 1 or as 0 where there is none, in ascending order.
pub(super) fn numbers(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = all.filter_map(|number| number.checked_sub(1)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
