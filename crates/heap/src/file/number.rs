//! Numbers of objects and lines in a block, as the file writes them. Used by `read` and `write`.

use varint::{Take, Wrong, put_signed};

/// Writes the distance from one number to another, so that short ones of either sign are short.
pub fn put_distance(out: &mut Vec<u8>, from: u32, to: u32) {
    put_signed(out, i64::from(to) - i64::from(from));
}

/// Reads the distance from a number to one below `end`.
pub fn at_distance(take: &mut Take, from: u32, end: usize) -> Result<u32, Wrong> {
    let to = i64::from(from).checked_add(take.signed()?).ok_or(Wrong)?;
    match u32::try_from(to) {
        Ok(to) if (to as usize) < end => Ok(to),
        _ => Err(Wrong),
    }
}

/// Reads a number plus one, the number being below `end`, or 0 for none.
pub fn optional(take: &mut Take, end: usize) -> Result<Option<u32>, Wrong> {
    Ok(take.below(end + 1)?.checked_sub(1))
}
