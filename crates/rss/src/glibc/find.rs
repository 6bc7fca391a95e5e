//! Where glibc's allocator keeps its state, found without symbols: `main_arena` is static, and a stripped library names it nowhere.
//! Used by `glibc` and `changing_chunks`.
//!
//! ```text
//!   struct malloc_state            2.27 to 2.42   since 2.43 (no fastbins)
//!     mutex, flags                  0              0
//!     have_fastchunks, fastbinsY[10]  8, 16          –
//!     top                           96             8
//!     last_remainder                104            16
//!     bins[254]                     112            24      ← found by what it says: an empty bin's two words lead to the bin itself
//!     binmap[4]                     bins + 2032
//!     next                          bins + 2048
//!     next_free, attached_threads   bins + 2056, + 2064
//!     system_mem, max_system_mem    bins + 2072, + 2080
//! ```
//!
//! (`malloc/malloc.c` of glibc 2.31, 2.36, 2.41, 2.42 and of the development tree of 2026-01, read there.) The list of arenas by `next` leads
//! back to `main_arena`, and each of the others lies behind a `heap_info` that names it (`malloc/arena.c`). So what is found is checked by
//! what it leads to, and a process can only mislead about itself.

use std::collections::BTreeSet;
use std::ops::Range;

use vm::Memory;

use super::walk::{End, walk};

/// `NBINS - 1`: bins of two words each in `bins`.
const BINS: u64 = 127;
/// How many of the bins must be proven: empty, or with chunks that lead back to them. In a heap that has become fragmented hardly one is
/// empty, and while the process runs some lists change between two reads.
const PROVEN: usize = 64;
/// Distances from `bins` to `next` and to `system_mem`, in bytes.
const NEXT: u64 = 2048;
const SYSTEM_MEM: u64 = 2072;
/// From the start of the structure to `bins`, with and without fastbins.
const WITH_FASTBINS: u64 = 112;
const WITHOUT: u64 = 24;
/// `HEAP_MAX_SIZE`, to a multiple of which the heaps of the other arenas are aligned. (With huge pages by a tunable it is larger;
/// such arenas are not found.)
pub const HEAP_MAX: u64 = 64 << 20;
/// `sizeof(heap_info)`: to 2.34, and since 2.35 with `pagesize`.
const HEAP_INFO: [u64; 2] = [32, 48];
/// The most arenas: eight for each processor unless a tunable says otherwise.
const MOST_ARENAS: usize = 1 << 14;

/// The most words that look like `malloc_par` that are tried.
const MOST_TRIED: usize = 64;

/// One arena of glibc's allocator, as its `malloc_state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Address of its `malloc_state`.
    pub state: u64,
    /// Address of `fastbinsY`, where there is one.
    pub fastbins: Option<u64>,
    /// Address of the last chunk, from which more is cut.
    pub top: u64,
    /// Address one past the `malloc_state`.
    pub end: u64,
    /// What it has from the kernel, in bytes.
    pub system: u64,
    /// Whether it is the first one, whose memory comes from `brk`.
    pub main: bool,
}

impl Arena {
    /// Returns the address of `top` in the `malloc_state`.
    pub fn top_at(&self) -> u64 {
        self.state
            + if self.fastbins.is_some() {
                WITH_FASTBINS
            } else {
                WITHOUT
            }
            - 16
    }
}

/// All arenas of the allocator, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The main arena first.
    pub arenas: Vec<Arena>,
    /// `malloc_par`, if it was found.
    pub parameters: Option<Parameters>,
}

/// What of `struct malloc_par` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The first address that `brk` gave it.
    pub sbrk_base: u64,
    /// Number of chunks with a mapping of their own (`n_mmaps`).
    pub mapped: u64,
    /// Bytes of those mappings (`mmapped_mem`).
    pub mapped_bytes: u64,
}

/// Finds the allocator by the variables of a module; `heap` is the mapping `[heap]`, if there is one.
pub fn find(memory: &impl Memory, data: &[Range<u64>], heap: Option<Range<u64>>) -> Option<Found> {
    let words: Vec<(u64, Vec<u64>)> = data
        .iter()
        .map(|range| (range.start, words(memory, range)))
        .collect();
    let arenas = words.iter().find_map(|(start, words)| {
        (0..words.len()).find_map(|at| {
            let bins = start + at as u64 * 8;
            let found = is_bins(memory, bins, words.get(at..at + 2 * BINS as usize)?);
            found.then(|| arenas(memory, bins)).flatten()
        })
    })?;
    let top = arenas.first()?.top;
    let parameters = heap.and_then(|heap| {
        let all = words.iter().flat_map(|(_, words)| words.windows(6));
        let mut sound: Vec<Parameters> = all.filter_map(|six| parameters(six, &heap)).collect();
        // Other words may look like these by chance; from the true ones on, chunks lead to the last one.
        sound.sort_by_key(|one| one.sbrk_base);
        let chunks = |one: &Parameters| walk(memory, one.sbrk_base..heap.end, top, &mut |_| {});
        let mut sound = sound.into_iter().take(MOST_TRIED);
        sound.find(|one| chunks(one) == End::Whole)
    });
    Some(Found { arenas, parameters })
}

/// The words of a range, up to the first that cannot be read; at most 16 MiB.
fn words(memory: &impl Memory, range: &Range<u64>) -> Vec<u64> {
    let size = (range.end - range.start).min(16 << 20);
    let mut bytes = vec![0; size as usize];
    // Page by page, because there may be holes.
    let pages = bytes.chunks_mut(4096).zip((range.start..).step_by(4096));
    let reads = pages.map(|(page, at)| memory.read(at, page).is_ok());
    let whole = reads.take_while(|read| *read).count();
    bytes.truncate(whole * 4096);
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect()
}

/// Whether these words, from `bins` on, are bins. A bin is a list through the words at 16 and 24 of its chunks, and of itself as of a chunk
/// 16 bytes before it: the first chunk's word at 24 and the last one's at 16 lead to it.
fn is_bins(memory: &impl Memory, bins: u64, words: &[u64]) -> bool {
    let bins = (bins - 16..).step_by(16).zip(words.as_chunks::<2>().0);
    let could_be = |(own, [first, last]): (u64, &[u64; 2])| match (*first == own, *last == own) {
        (true, true) => true,
        (false, false) => [first, last]
            .iter()
            .all(|word| **word != 0 && word.is_multiple_of(16)),
        _ => false,
    };
    let leads_back = |own: u64, [first, last]: &[u64; 2]| {
        let word = |chunk: &u64, at: u64| memory.u64(chunk.wrapping_add(at));
        *first == own || word(first, 24) == Ok(own) && word(last, 16) == Ok(own)
    };
    bins.clone().all(could_be) && bins.filter(|(own, bin)| leads_back(*own, bin)).count() >= PROVEN
}

/// The arenas, beginning with the main one, whose bins are given; `None` if the list does not lead back to it.
fn arenas(memory: &impl Memory, bins: u64) -> Option<Vec<Arena>> {
    [WITH_FASTBINS, WITHOUT].into_iter().find_map(|distance| {
        let main = bins.checked_sub(distance)?;
        let mut found = vec![arena(memory, main, distance)?];
        let mut met = BTreeSet::from([main]);
        let mut next = memory.u64(bins + NEXT).ok()?;
        while next != main {
            if !met.insert(next) || met.len() > MOST_ARENAS || !is_in_heap(memory, next) {
                return None;
            }
            found.push(Arena {
                main: false,
                ..arena(memory, next, distance)?
            });
            next = memory.u64(next + distance + NEXT).ok()?;
        }
        Some(found)
    })
}

/// Whether the `heap_info` that this arena must lie behind names it.
fn is_in_heap(memory: &impl Memory, state: u64) -> bool {
    HEAP_INFO.contains(&(state % HEAP_MAX)) && memory.u64(state - state % HEAP_MAX) == Ok(state)
}

fn arena(memory: &impl Memory, state: u64, distance: u64) -> Option<Arena> {
    let bins = state.checked_add(distance)?;
    Some(Arena {
        state,
        fastbins: (distance == WITH_FASTBINS).then_some(state + 16),
        top: memory.u64(bins - 16).ok()?,
        end: bins.checked_add(SYSTEM_MEM + 16)?,
        system: memory.u64(bins + SYSTEM_MEM).ok()?,
        main: true,
    })
}

/// The words of `struct malloc_par` from `n_mmaps` on, which stands at the start of a word up to 2.34, and since in the upper half of the one
/// before (`hp_flags` came in between):
///
/// ```text
///   n_mmaps, n_mmaps_max │ max_n_mmaps, no_dyn_threshold │ mmapped_mem │ max_mmapped_mem │ sbrk_base
///   hp_flags, n_mmaps │ n_mmaps_max, max_n_mmaps │ no_dyn_threshold │ mmapped_mem │ max_mmapped_mem │ sbrk_base
/// ```
fn parameters(six: &[u64], heap: &Range<u64>) -> Option<Parameters> {
    let [first, second, third, mapped_bytes, most_bytes, sbrk_base] = *six else {
        return None;
    };
    let low = |word: u64| word & 0xffff_ffff;
    let older = (low(second), second >> 32, low(third), third >> 32);
    let newer = (first >> 32, low(second), second >> 32, third);
    let counts = [older, newer]
        .into_iter()
        .find(|(mapped, limit, most, fixed)| {
            // The limit is 65536 unless the program has set another one.
            *limit != 0
                && mapped <= most
                && mapped <= limit
                && *fixed <= 1
                && (*mapped == 0) == (mapped_bytes == 0)
        });
    let sound = sbrk_base >= heap.start
        && sbrk_base < heap.end.min(heap.start + (1 << 20))
        && mapped_bytes <= most_bytes
        && [sbrk_base, mapped_bytes, most_bytes]
            .iter()
            .all(|bytes| bytes.is_multiple_of(16));
    let (mapped, ..) = counts.filter(|_| sound)?;
    Some(Parameters {
        sbrk_base,
        mapped,
        mapped_bytes,
    })
}
