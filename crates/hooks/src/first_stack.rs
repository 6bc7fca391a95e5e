//! The stack that the kernel made for a process's first thread, and the stack pointers with which a hook may run on
//! it. Used by `open`.
//!
//! The kernel extends the mapping when the stack grows, down to the process's limit (RLIMIT_STACK, read anew each
//! time), and leaves a gap to the mapping below (`stack_guard_gap`, mm/mmap.c: 256 pages).

use process::error::Result;
use process::maps::Maps;
use routine::room::{NO_ROOM, ROOM};

/// The default limit in bytes.
const USUAL: u64 = 8 << 20;
/// The bytes below the stack's end that the kernel keeps free of mappings at least, whatever the limit (`MIN_GAP`, mm/util.c).
const LEAST_GAP: u64 = 128 << 20;
/// The gap, in bytes.
const GAP: u64 = 256 * 4096;

/// The lowest stack pointer with which a hook runs on it, and how far above it the highest is.
pub(crate) fn bounds(pid: i32) -> Result<[u64; 2]> {
    // If the limit cannot be read, the default is assumed.
    let limit = process::limits::stack(pid).unwrap_or(USUAL);
    Ok(within(&Maps::of(pid)?, limit))
}

/// The bounds in these mappings, with a limit of `limit` bytes.
fn within(maps: &Maps, limit: u64) -> [u64; 2] {
    let Some(stack) = maps.iter().find(|mapping| mapping.is_named("[stack]")) else {
        return NO_ROOM;
    };
    let below = maps.iter().take_while(|mapping| mapping.end <= stack.start);
    let free = below.last().map_or(0, |mapping| mapping.end + GAP);
    let reach = stack.end.saturating_sub(limit.min(LEAST_GAP));
    // A limit that was lowered does not take away pages that exist.
    let low = free.max(reach).min(stack.start) + ROOM;
    match stack.end.checked_sub(low) {
        Some(span) => [low, span],
        None => NO_ROOM,
    }
}

#[cfg(test)]
mod tests {
    use super::{USUAL, within};
    use process::maps::Maps;
    use routine::room::{NO_ROOM, ROOM};

    const MAPS: &str = "\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]
7ffe00030000-7ffe00032000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn the_first_stack_reaches_down_to_its_limit() {
        let maps = Maps::parse(MAPS.as_bytes());
        let end = 0x7ffe_0002_1000;
        assert_eq!(
            within(&maps, 8 << 20),
            [end - (8 << 20) + ROOM, (8 << 20) - ROOM]
        );
        let least = end - (128 << 20) + ROOM;
        assert_eq!(within(&maps, u64::MAX), [least, end - least]);
        assert_eq!(within(&maps, 0), [0x7ffe_0000_0000 + ROOM, 0x21000 - ROOM]);
        assert_eq!(within(&Maps::parse(b""), USUAL), NO_ROOM);
    }
}
