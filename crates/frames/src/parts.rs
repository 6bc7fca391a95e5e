//! Finds the functions whose parts (`.cold`) the compiler has moved away. Used by `scan`.
//!
//! A part has an entry of its own in the call frame information, and works in the frame of the function that jumps to
//! it. Here it is assigned to that function. Only the bytes of the code are examined: `e9` and `0f 80`…`0f 8f` with a
//! 32-bit distance that leads into a part. Such bytes can also occur inside other instructions, but then they lead
//! into one of the few parts of a large file only by chance; so the function that contains most of them is taken.

use std::collections::HashMap;
use std::ops::Range;

use crate::image::Image;

/// Returns, for each of `parts` (by rising address), the start of the function that jumps to it, if one does.
/// `functions` are the ranges of all functions that are no parts, by rising address.
pub(crate) fn owners(
    image: &Image,
    parts: &[Range<u64>],
    functions: &[Range<u64>],
) -> Vec<Option<u64>> {
    let mut votes: Vec<HashMap<u64, u32>> = vec![HashMap::new(); parts.len()];
    let Some(lowest) = parts.first().map(|part| part.start) else {
        return Vec::new();
    };
    let highest = parts.iter().map(|part| part.end).max().unwrap_or(lowest);
    let holds = |ranges: &[Range<u64>], at: u64| {
        let after = ranges.partition_point(|range| range.start <= at);
        after
            .checked_sub(1)
            .filter(|&found| ranges[found].contains(&at))
    };
    for code in image.code() {
        let bytes = code.bytes;
        for at in 0..bytes.len().saturating_sub(5) {
            let distance_at = match bytes[at] {
                0xe9 => at + 1,
                0x0f if bytes[at + 1] & 0xf0 == 0x80 => at + 2,
                _ => continue,
            };
            let Some(distance) = bytes.get(distance_at..).and_then(|rest| rest.first_chunk())
            else {
                continue;
            };
            let distance = i64::from(i32::from_le_bytes(*distance));
            let from = code.address + at as u64;
            let target = (code.address + distance_at as u64 + 4).wrapping_add_signed(distance);
            if !(lowest..highest).contains(&target) {
                continue;
            }
            if let Some(part) = holds(parts, target)
                && let Some(owner) = holds(functions, from)
            {
                *votes[part].entry(functions[owner].start).or_default() += 1;
            }
        }
    }
    votes
        .into_iter()
        .map(|votes| {
            // Of equal counts the lowest address is taken, so that two runs agree.
            votes
                .into_iter()
                .max_by_key(|&(start, count)| (count, std::cmp::Reverse(start)))
                .map(|(start, _)| start)
        })
        .collect()
}
