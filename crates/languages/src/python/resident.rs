//! The arenas of a Python's allocator for small objects, pymalloc. Used by `python`.
//!
//! ```text
//!   arenas ─▶ arena_object[]: address, pool_address, nfreepools, ntotalpools, freepools, nextarena, prevarena   (48 bytes)
//!                               │
//!                               ▼ 256 KiB in 3.9, 1 MiB since 3.10
//!             pool, pool, … up to pool_address; behind it none has been carved off yet      4 KiB in 3.9, 16 KiB since 3.10
//!              │
//!              ▼ count, freeblock, nextpool, prevpool, arenaindex, szidx, nextoffset, maxnextoffset   (48 bytes)
//!                blocks of (szidx + 1) * 16 bytes; from nextoffset on none has been given out yet; the free ones before it are
//!                a list from freeblock on through their first words
//! ```
//!
//! (`Objects/obmalloc.c` of 3.9 and 3.11; `Include/internal/pycore_obmalloc.h` since 3.12.) The variable `arenas` has no symbol: it is a static
//! one to 3.11, is in the interpreter's state in 3.12, and in a static structure since 3.13; each of them lies among the variables of the
//! module with the VM. It is found there as the word that leads to an array of sound `arena_object`s, of which each arena in use says
//! its own place in the array. Interpreters that have arenas of their own (3.12 on) and builds without the lock (mimalloc) have more; their
//! memory is in the rows of mappings.

use std::ops::Range;

use vm::python::{Facts, Version};
use vm::{Language, Memory};

use crate::resident::claims::{Claim, Layer, add};
use crate::resident::rows::Rows;
use crate::resident::{HeapRows, LoadedFiles, VmHeap, steadiest};
use process::resident_memory::ResidentMemory;

/// `sizeof(struct arena_object)`, and of `struct pool_header`.
const ARENA_OBJECT: u64 = 48;
const POOL_HEADER: u64 = 48;
/// Blocks are multiples of this, up to 512.
const ALIGN: u64 = 16;
const CLASSES: u64 = 32;
/// The most arenas: 1 TiB of them.
const MOST_ARENAS: usize = 1 << 20;
/// Unused `arena_object`s in a row, after which what follows is taken for something else.
const MOST_UNUSED: u64 = 1 << 16;

/// Looks for the heap of a Python; `None` if the process has no Python, or one without arenas.
pub fn look(
    memory: &ResidentMemory,
    loaded: &dyn LoadedFiles,
    rows: &mut Rows,
) -> Option<Result<(VmHeap, Layer), String>> {
    let (symbols, data) = loaded.with_data(Language::Python.description().mark)?;
    let symbol = |name: &str| symbols.symbol(name).map(|symbol| symbol.address);
    steadiest(memory, || {
        let facts = match Facts::find(memory, &symbol) {
            Ok(facts) => facts,
            Err(error) => return Some(Err(error.to_string())),
        };
        let sizes = Sizes::of(facts.version());
        // None where everything comes from malloc (`PYTHONMALLOC`), or before the first object.
        let arenas = arenas(memory, &data, sizes)?;
        Some(Ok(Walk::of(memory, facts.version(), &arenas, rows)))
    })
}

/// `ARENA_SIZE` and `POOL_SIZE` of `Objects/obmalloc.c`, in bytes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    arena: u64,
    pool: u64,
}

impl Sizes {
    fn of(version: Version) -> Self {
        match (version.major, version.minor) {
            (3, ..=9) => Sizes {
                arena: 256 << 10,
                pool: 4 << 10,
            },
            _ => Sizes {
                arena: 1 << 20,
                pool: 16 << 10,
            },
        }
    }
}

/// An arena that is in use.
#[derive(Clone, Copy, Debug)]
struct Arena {
    start: u64,
    /// The first pool that has not been carved off.
    fresh: u64,
    /// Its index in the array of `arena_object`s.
    index: u64,
}

/// The arenas in use: the longest list to which a word among the variables leads.
fn arenas(memory: &impl Memory, data: &[Range<u64>], sizes: Sizes) -> Option<Vec<Arena>> {
    let mut best: Vec<Arena> = Vec::new();
    let mut last = 0;
    for range in data {
        for at in (range.start.next_multiple_of(8)..range.end).step_by(8) {
            let Ok(array) = memory.u64(at) else {
                continue;
            };
            if array == 0 || array == last || !array.is_multiple_of(16) {
                continue;
            }
            last = array;
            let found = array_at(memory, array, sizes);
            if found.len() > best.len() {
                best = found;
            }
        }
    }
    (!best.is_empty()).then_some(best)
}

/// The arenas of the array at `at`, if the first that is in use there is one, as its pools say.
fn array_at(memory: &impl Memory, at: u64, sizes: Sizes) -> Vec<Arena> {
    let mut found = Vec::new();
    for index in 0..MOST_ARENAS as u64 {
        let Some(object) = index
            .checked_mul(ARENA_OBJECT)
            .and_then(|ahead| at.checked_add(ahead))
        else {
            break;
        };
        match arena_at(memory, object, index, sizes) {
            None => break,
            Some(None) => {}
            Some(Some(arena)) => found.push(arena),
        }
        // Words that are no arenas look like some that are not in use.
        let after = found.last().map_or(0, |last: &Arena| last.index);
        if index - after > if found.is_empty() { 64 } else { MOST_UNUSED } {
            break;
        }
    }
    found
}

/// The arena that an `arena_object` describes: `None` if it is none, `Some(None)` if it is not in use.
fn arena_at(memory: &impl Memory, object: u64, index: u64, sizes: Sizes) -> Option<Option<Arena>> {
    let start = memory.u64(object).ok()?;
    if start == 0 {
        return Some(None);
    }
    let fresh = memory.u64(object + 8).ok()?;
    let free = u64::from(memory.u32(object + 16).ok()?);
    let total = u64::from(memory.u32(object + 20).ok()?);
    let first = start.checked_next_multiple_of(sizes.pool)?;
    let whole = sizes.arena / sizes.pool;
    let sound = start.is_multiple_of(4096)
        && total == if start == first { whole } else { whole - 1 }
        && free <= total
        && fresh.is_multiple_of(sizes.pool)
        && (first..=start.checked_add(sizes.arena)?).contains(&fresh);
    // Each pool names its arena.
    let named = fresh == first || memory.u32(first + 32) == Ok(index as u32);
    (sound && named).then_some(Some(Arena {
        start,
        fresh,
        index,
    }))
}

struct Walk {
    heap: VmHeap,
    claims: Vec<Claim>,
    sizes: Sizes,
    rows: HeapRows,
}

impl Walk {
    fn of(
        memory: &ResidentMemory,
        version: Version,
        arenas: &[Arena],
        rows: &mut Rows,
    ) -> (VmHeap, Layer) {
        let mut walk = Walk {
            heap: VmHeap::new(Language::Python, version.to_string()),
            claims: Vec::new(),
            sizes: Sizes::of(version),
            rows: HeapRows::of(Language::Python, rows),
        };
        for arena in arenas {
            walk.arena(memory, arena);
        }
        (walk.heap, Layer::of(walk.claims))
    }

    fn arena(&mut self, memory: &ResidentMemory, arena: &Arena) {
        let Sizes { arena: size, pool } = self.sizes;
        let first = arena.start.next_multiple_of(pool);
        let end = arena.start + size;
        self.heap.bytes += size;
        add(&mut self.claims, arena.start..first, self.rows.records);
        let mut at = first;
        while at + pool <= end {
            self.heap.pages += 1;
            if at >= arena.fresh {
                self.nothing(at);
            } else if self.pool(memory, at, arena.index).is_none() {
                self.heap.unread += 1;
            }
            at += pool;
        }
        add(&mut self.claims, at..end, self.rows.records);
    }

    /// A pool with nothing in it.
    fn nothing(&mut self, at: u64) {
        self.heap.empty_pages += 1;
        self.heap.empty_bytes += self.sizes.pool;
        add(&mut self.claims, at..at + self.sizes.pool, self.rows.empty);
    }

    /// A pool that has been carved off; `None` if it makes no sense.
    fn pool(&mut self, memory: &ResidentMemory, at: u64, arena: u64) -> Option<()> {
        let half = |offset: u64| memory.u32(at + offset).ok().map(u64::from);
        let (count, index, class) = (half(0)?, half(32)?, half(36)?);
        if index != arena {
            return None;
        }
        if count == 0 {
            self.nothing(at);
            return Some(());
        }
        let size = (class + 1) * ALIGN;
        let blocks = (self.sizes.pool - POOL_HEADER) / size;
        let fresh = half(40)?;
        if class >= CLASSES || count > blocks || fresh > self.sizes.pool + size {
            return None;
        }
        let given_out = (fresh.checked_sub(POOL_HEADER)? / size).min(blocks);
        let mut is_free = vec![false; blocks as usize];
        is_free[given_out as usize..].fill(true);
        let mut free = blocks - given_out;
        let mut next = memory.u64(at + 8).ok()?;
        while next != 0 {
            let block = next.checked_sub(at + POOL_HEADER)?;
            let number = (block / size) as usize;
            if block % size != 0 || *is_free.get(number)? {
                return None;
            }
            is_free[number] = true;
            free += 1;
            next = memory.u64(next).ok()?;
        }
        if free + count != blocks {
            return None;
        }
        let heap = &mut self.heap;
        heap.used += count;
        heap.used_bytes += count * size;
        heap.free += free;
        heap.free_bytes += free * size;
        heap.sparse_pages += u64::from(count * 4 <= blocks);
        let begin = at + POOL_HEADER;
        add(&mut self.claims, at..begin, self.rows.records);
        for (number, is_free) in (0..).zip(is_free) {
            let block = begin + number * size..begin + (number + 1) * size;
            add(
                &mut self.claims,
                block,
                if is_free {
                    self.rows.free
                } else {
                    self.rows.used
                },
            );
        }
        add(
            &mut self.claims,
            begin + blocks * size..at + self.sizes.pool,
            self.rows.records,
        );
        Some(())
    }
}
