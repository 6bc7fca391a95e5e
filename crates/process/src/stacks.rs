//! Which memory below a thread's stack pointer is its stack.
//!
//! The mapping says it only where it is a stack and nothing else. A coroutine, or a handler on its alternate stack, may
//! run within a mapping that holds other things too: the heap, a program's static data. What lies below its stack
//! pointer is then somebody else's.
//!
//! | the stack pointer is | its stack begins |
//! |---|---|
//! | within the stack that the C library made for the thread | where the thread's own block says, behind the guard |
//! | within `[stack]` | with the mapping |
//! | within an anonymous mapping right behind one that nobody may touch, as fibres and threads have them | with the mapping |
//! | anywhere else | nobody knows where |
//!
//! An arena of malloc may lie behind the unused end of another. Arenas are aligned to their size
//! (`HEAP_MAX_SIZE`, glibc `malloc/arena.c`), which stacks are not.

use crate::maps::{Mapping, Maps};
use crate::memory::GuestMemory;
use std::ops::Range;

const PAGE: u64 = 4096;
const ARENA: u64 = 64 << 20;
/// Bytes of a thread's block that are searched, and what may lie between it and the end of its stack: as in the agent,
/// which asks the same (`agent::calls::room`).
const SEARCHED: u64 = 0x800;
const BLOCK: u64 = 0x2000;
const SIZES: Range<u64> = 16 << 10..1 << 40;

/// The lowest address of the stack that this stack pointer of a thread is in; `None` = it is not known to be in one.
pub fn lowest(memory: &GuestMemory, maps: &Maps, thread_pointer: u64, sp: u64) -> Option<u64> {
    let mut words = vec![0; (SEARCHED / 8) as usize];
    let there = thread_pointer != 0 && memory.read_words(thread_pointer, &mut words).is_ok();
    let made = there
        .then(|| made_by_library(&words, thread_pointer))
        .flatten();
    let own = made.filter(|stack| stack.contains(&sp));
    let mapped = maps.find(sp)?;
    match own {
        // Up to the guard, which is a mapping of its own, or cannot be written to.
        Some(stack) if stack.start < mapped.start => Some(mapped.start),
        Some(stack) => Some(stack.start + PAGE),
        None => is_stack(maps, mapped).then_some(mapped.start),
    }
}

/// The stack that the C library notes in the block at a thread pointer, guard and block included: two words behind each
/// other, its begin and its bytes (glibc `stackblock`, musl `map_base`).
fn made_by_library(words: &[u64], thread_pointer: u64) -> Option<Range<u64>> {
    let [itself, ..] = words else { return None };
    if *itself != thread_pointer {
        return None;
    }
    let pairs = words.array_windows();
    let stacks = pairs.map(|[low, size]| (*low, *size));
    let found = stacks.into_iter().find(|(low, size)| {
        let above = low.wrapping_add(*size).wrapping_sub(thread_pointer);
        SIZES.contains(size) && *low < thread_pointer && 0 < above && above <= BLOCK
    });
    found.map(|(low, size)| low..low + size)
}

/// Whether a mapping is a stack and nothing else.
fn is_stack(maps: &Maps, mapping: &Mapping) -> bool {
    if mapping.is_named("[stack]") {
        return true;
    }
    let guard = maps.iter().find(|before| before.end == mapping.start);
    let anonymous = |mapping: &Mapping| !mapping.is_file() && !mapping.is_named("[heap]");
    let guarded = guard.is_some_and(|guard| {
        let p = guard.permissions;
        anonymous(guard) && !p.read && !p.write && !p.execute
    });
    anonymous(mapping) && guarded && !mapping.start.is_multiple_of(ARENA)
}

#[cfg(test)]
mod tests {
    use super::{is_stack, made_by_library};
    use crate::maps::Maps;

    const MAPS: &str = "\
55d000000000-55d000001000 rw-p 00000000 08:01 7                          /bin/program
55d000001000-55d000003000 rw-p 00000000 00:00 0
55d000100000-55d000200000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f0004000000-7f0004021000 rw-p 00000000 00:00 0
7f0004021000-7f0008000000 ---p 00000000 00:00 0
7f0010000000-7f0010001000 ---p 00000000 00:00 0
7f0010001000-7f0010801000 rw-p 00000000 00:00 0
7f0020000000-7f0020100000 rw-p 00000000 00:00 0
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn a_mapping_is_a_stack_if_it_is_nothing_else() {
        let maps = Maps::parse(MAPS.as_bytes());
        let is = |at: u64| is_stack(&maps, maps.find(at).expect("mapped"));
        assert!(is(0x7ffe_0002_0000), "the first thread's");
        assert!(is(0x7f00_1000_1000), "behind a guard");
        assert!(!is(0x55d0_0000_0800), "static data");
        assert!(!is(0x55d0_0000_1800), "more of that");
        assert!(!is(0x55d0_0010_0800), "the heap");
        assert!(!is(0x7f00_0000_0800), "an arena");
        assert!(!is(0x7f00_0400_0800), "an arena behind the end of another");
        assert!(!is(0x7f00_2000_0800), "memory of any kind");
    }

    #[test]
    fn the_library_notes_the_stack_that_it_made() {
        let pointer = 0x7f00_1080_06c0;
        let mut words = vec![0u64; 256];
        assert_eq!(made_by_library(&words, pointer), None);
        words[0] = pointer;
        assert_eq!(made_by_library(&words, pointer), None);
        words[5] = 0x7f00_0000_0000;
        words[210] = 0x7f00_1000_0000;
        words[211] = 0x80_1000;
        let stack = 0x7f00_1000_0000..0x7f00_1080_1000;
        assert_eq!(made_by_library(&words, pointer), Some(stack));
        // Of another thread.
        assert_eq!(made_by_library(&words, pointer + 0x100_0000), None);
    }
}
