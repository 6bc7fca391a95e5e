//! Chunks that are free and pass for used: those in fastbins, and in each thread's cache (tcache). Used by `glibc`.
//!
//! The cache of a thread is a chunk in use of the thread's arena, to which only a thread-local variable leads. It is known by its size and by
//! what it says: `counts`, then `entries`, lists of chunks of one size each.
//!
//! | glibc | `tcache_perthread_struct` | size of its chunk |
//! |---|---|---|
//! | 2.27 to 2.29 | `char counts[64]`, `entries[64]` | 0x250 |
//! | 2.30 to 2.41 | `uint16_t counts[64]`, `entries[64]` | 0x290 |
//! | since 2.42 | `uint16_t num_slots[76]` (places left), `entries[76]`, of which the last 12 are of large chunks | 0x300 |
//!
//! An entry leads to the program's part of a chunk, whose first word is the next; a fastbin to a chunk, whose word at 16 is. Since 2.32 the
//! links are mixed with the place they stand at (`PROTECT_PTR`).

use vm::Memory;

use super::walk::{Chunk, size};

/// The most chunks that a list of a cache may have (`tcache_count` is an `uint16_t`), and a fastbin.
const LONGEST: usize = 1 << 16;
const LONGEST_FAST: usize = 1 << 22;
/// Number of fastbins of an arena (`NFASTBINS`, `malloc/malloc.c`).
const FASTBINS: u64 = 10;

/// What a structure of a cache looks like.
struct Form {
    /// The size of its chunk.
    chunk: u64,
    bins: u64,
    /// Bytes of a count.
    count: u64,
    /// Whether counts are of chunks in the list, or of those that would still find room.
    counts_chunks: bool,
}

const FORMS: [Form; 3] = [
    Form {
        chunk: 0x250,
        bins: 64,
        count: 1,
        counts_chunks: true,
    },
    Form {
        chunk: 0x290,
        bins: 64,
        count: 2,
        counts_chunks: true,
    },
    Form {
        chunk: 0x300,
        bins: 76,
        count: 2,
        counts_chunks: false,
    },
];
/// Bins of chunks of one size; the others are of ranges of sizes.
const SMALL: u64 = 64;

/// Whether a chunk in use may be a thread's cache.
pub fn may_be_cache(chunk: &Chunk) -> bool {
    chunk.used && FORMS.iter().any(|form| form.chunk == chunk.size)
}

/// Where a chunk may be: whether an address lies in a heap.
pub type InHeap<'a> = &'a dyn Fn(u64) -> bool;

/// The chunks in a thread's cache; `None` if the chunk `cache` is none. A cache with nothing in it is not told from other memory, and need
/// not be.
pub fn cached(memory: &impl Memory, cache: &Chunk, in_heap: InHeap) -> Option<Vec<Chunk>> {
    let form = FORMS.iter().find(|form| form.chunk == cache.size)?;
    let own = cache.start + 16;
    let mut found = Vec::new();
    for bin in 0..form.bins {
        let count_at = own + bin * form.count;
        let count = match form.count {
            1 => u64::from(memory.u8(count_at).ok()?),
            _ => u64::from(memory.u16(count_at).ok()?),
        };
        let first = memory.u64(own + form.bins * form.count + bin * 8).ok()?;
        if form.counts_chunks && (count == 0) != (first == 0) {
            return None;
        }
        let fits = |size: u64| match bin {
            0..SMALL => size == bin * 16 + 32,
            _ => size > SMALL * 16 + 16,
        };
        let list = list(memory, first, 0, LONGEST, in_heap, &fits)?;
        if form.counts_chunks && list.len() as u64 != count {
            return None;
        }
        found.extend(list);
    }
    (!found.is_empty()).then_some(found)
}

/// The chunks in the fastbins at `fastbins`; a list that changes meanwhile is left out.
pub fn fast(memory: &impl Memory, fastbins: u64, in_heap: InHeap) -> Vec<Chunk> {
    let mut found = Vec::new();
    for bin in 0..FASTBINS {
        let Ok(first) = memory.u64(fastbins + bin * 8) else {
            continue;
        };
        let fits = |size: u64| size == bin * 16 + 32;
        found.extend(list(memory, first, 16, LONGEST_FAST, in_heap, &fits).unwrap_or_default());
    }
    found
}

/// The chunks of a list. `link` is the distance from what a link leads to, to the next link; it leads to the chunk, or with 0 to the
/// program's part of it.
fn list(
    memory: &impl Memory,
    first: u64,
    link: u64,
    most: usize,
    in_heap: InHeap,
    fits: &dyn Fn(u64) -> bool,
) -> Option<Vec<Chunk>> {
    let follow = |mixed: bool| {
        let mut found = Vec::new();
        let mut next = first;
        while next != 0 {
            let start = next.checked_sub(16 - link)?;
            if !next.is_multiple_of(16) || found.len() == most || !in_heap(start) {
                return None;
            }
            let size = size(memory, start).filter(|size| fits(*size))?;
            found.push(Chunk {
                start,
                size,
                used: false,
            });
            let at = next.checked_add(link)?;
            let word = memory.u64(at).ok()?;
            next = if mixed { word ^ at >> 12 } else { word };
        }
        Some(found)
    };
    follow(true).or_else(|| follow(false))
}
