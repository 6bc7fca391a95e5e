//! A complete segment that will be written, and the numbers that occur in it, for the
//! index. Used by `encode`.

use crate::segment::Segment;

/// The content of one segment of a stream.
pub struct Closed<'a> {
    /// The head, except what only the writer knows: stream, guest, ring, offset, checksum.
    pub head: Segment,
    /// The items of the segment, before they are packed.
    pub bytes: &'a [u8],
    /// The call edges that occur; `None` = any may, because the segment also contains other
    /// events than calls.
    pub edges: Option<Vec<u32>>,
    /// The lines of scripts and libraries that occur, likewise.
    pub lines: Option<Vec<u32>>,
}

/// The numbers in ascending order. Each is given plus 1, or as 0 if there is none.
pub(super) fn numbers(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = all.filter_map(|number| number.checked_sub(1)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
