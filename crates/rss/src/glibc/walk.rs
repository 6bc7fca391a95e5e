//! The chunks of a heap of glibc's, one after the other. Used by `changing_chunks`, `glibc`, `caches` and others.
//!
//! ```text
//!   │ size of the one before, if that is free │ size, 3 bits │ the program's, or links of the free list … │
//!   └ chunk                                     └ bit 0: the one before is in use
//! ```
//!
//! (`malloc/malloc.c`, "malloc_chunk details".) Whether a chunk is in use stands in the next one. Chunks in a thread's cache or a fastbin
//! pass for used here; see `caches`. The program runs on meanwhile. A chunk that is freed and joined keeps its old size word, mostly,
//! so that a walk that has read it goes on; one that meets nonsense ends there and says so.

use std::ops::Range;

use vm::Memory;

/// The smallest chunk (`MINSIZE`).
pub const SMALLEST: u64 = 32;
/// The bits of the size word: `PREV_INUSE`, `IS_MMAPPED`, `NON_MAIN_ARENA`.
const BITS: u64 = 7;
const PREV_INUSE: u64 = 1;
/// At the end of a heap that another one follows stand two chunks of 16 bytes or less (`sysmalloc`).
const FENCE: u64 = 48;

/// A piece of a heap that the allocator gives out as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its address: 16 before what the program has.
    pub start: u64,
    /// Size in bytes, with the word that says it.
    pub size: u64,
    /// Whether the program has it, or a cache.
    pub used: bool,
}

impl Chunk {
    /// Returns the addresses from `start` on that the chunk has.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.size)
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the top chunk, or at the end of the heap.
    Whole,
    /// At this address, where no chunk can be.
    Broken(u64),
}

/// Returns the size of the chunk at `at`.
pub fn size(memory: &impl Memory, at: u64) -> Option<u64> {
    Some(memory.u64(at.checked_add(8)?).ok()? & !BITS)
}

/// Calls `each` with the chunks in `heap`, up to `top` if that lies in it.
pub fn walk(memory: &impl Memory, heap: Range<u64>, top: u64, each: &mut dyn FnMut(Chunk)) -> End {
    let mut at = heap.start;
    let mut word = memory.u64(at.wrapping_add(8));
    while at < heap.end && at != top {
        let Ok(own) = word else {
            return End::Broken(at);
        };
        let size = own & !BITS;
        if size < SMALLEST && heap.end - at <= FENCE {
            return End::Whole;
        }
        let next = at.saturating_add(size);
        if size < SMALLEST
            || !size.is_multiple_of(16)
            || next > heap.end
            || (at < top && top < next)
        {
            return End::Broken(at);
        }
        word = memory.u64(next.saturating_add(8));
        // Nothing is behind the last chunk of a heap but a fence.
        let used = match word {
            Ok(after) => after & PREV_INUSE != 0,
            Err(_) => return End::Broken(at),
        };
        each(Chunk {
            start: at,
            size,
            used,
        });
        at = next;
    }
    End::Whole
}

/// Returns the size of the mapping whose one chunk begins at `at`, the start of a page, if one does. Of its size word only the bit
/// `IS_MMAPPED` is set, and it says the size of the mapping (since 2.43 without the 16 bytes of the two words: `mmap_set_chunk`).
/// A chunk with a greater alignment has left its first head where it was.
pub fn mapped(memory: &impl Memory, at: u64, end: u64) -> Option<u64> {
    let before = memory.u64(at).ok()?;
    let word = memory.u64(at.checked_add(8)?).ok()?;
    if word & BITS != 2 || before > 1 {
        return None;
    }
    let size = word & !BITS;
    let whole = [size, size.checked_add(16)?];
    let whole = whole.into_iter().find(|whole| whole.is_multiple_of(4096))?;
    (whole > 0 && whole <= end.checked_sub(at)?).then_some(whole)
}
