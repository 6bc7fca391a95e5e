//! The heap of a PHP: chunks of 2 MiB, each with a map of its pages.
//!
//! ```text
//!   chunk, aligned to 2 MiB: heap, next, prev, free_pages, free_tail, num, …, heap_slot at 64, free_map, map[512]    one page
//!                             │                                                  a bit a page ┘        └ a half a page:
//!                             ▼ in the first chunk                                   bit 31: slots of a size (bits 0 to 4),
//!   heap: …, free_slot[30], real_size, real_peak, limit, overflow, huge_list,        bit 30 besides: not the first of its pages;
//!         main_chunk, cached_chunks                                                  bit 30 alone: pages in a row
//! ```
//!
//! (`Zend/zend_alloc.c` and `zend_alloc_sizes.h` of PHP 7.3; what 7.4, 8.2 and 8.4 of Debian have was read in them.) Free slots of a size are a list from `free_slot` on through their first
//! words. What differs between versions is known by `main_chunk`, which leads back, and `free_map` and `map` are found by the first page,
//! which is the chunk's own. What is larger than 2 MiB has mappings of its own, which
//! `huge_list` lists: `ptr`, `size`, `next`.

use std::collections::HashSet;
use std::ops::Range;

use vm::php::Facts;
use vm::{Language, Memory};

use super::vm_heap::{HeapRows, VmHeap, steadiest};
use crate::claims::{Claim, Layer, MOST, RowId};
use crate::memory::Seen;
use crate::modules::Loaded;
use crate::rows::Rows;

const CHUNK: u64 = 2 << 20;
const PAGE: u64 = 4096;
const PAGES: u64 = CHUNK / PAGE;
/// Of `heap_slot` in a chunk.
const HEAP: u64 = 64;
/// `free_slot` and `main_chunk` in the heap: of 7.4 and 8.2, of 8.2.36, which has two words more between them, and of 8.4, which has
/// `shadow_key` before the one besides. `huge_list` is right before `main_chunk`, `cached_chunks` right behind it.
const FORMS: [(u64, u64); 3] = [(32, 312), (32, 328), (40, 336)];
/// `map[0]`: one page in a row.
const OWN_PAGE: u32 = 0x4000_0001;
const SLOTS: u32 = 1 << 31;
const ROW: u32 = 1 << 30;
/// Sizes of slots, and pages that slots of a size are cut from (`ZEND_MM_BINS_INFO`).
const BINS: [(u64, u64); 30] = [
    (8, 1),
    (16, 1),
    (24, 1),
    (32, 1),
    (40, 1),
    (48, 1),
    (56, 1),
    (64, 1),
    (80, 1),
    (96, 1),
    (112, 1),
    (128, 1),
    (160, 1),
    (192, 1),
    (224, 1),
    (256, 1),
    (320, 5),
    (384, 3),
    (448, 1),
    (512, 1),
    (640, 5),
    (768, 3),
    (896, 2),
    (1024, 2),
    (1280, 5),
    (1536, 3),
    (1792, 7),
    (2048, 4),
    (2560, 5),
    (3072, 3),
];
/// The most chunks and large blocks: 1 TiB.
const MOST_CHUNKS: usize = 1 << 19;

/// Looks for it.
pub(super) fn look(
    memory: &Seen,
    loaded: &Loaded,
    rows: &mut Rows,
) -> Option<Result<(VmHeap, Layer), String>> {
    let symbols = loaded.with(Language::Php.description().mark)?;
    let symbol = |name: &str| symbols.symbol(name).map(|symbol| symbol.address);
    steadiest(memory, || {
        // The layout is found by looking, so that a version without a reader has a ledger, too.
        let version = Facts::find(memory, &symbol)
            .map_or_else(|_| String::new(), |facts| facts.version().to_string());
        // None with `USE_ZEND_ALLOC=0`, where everything comes from malloc.
        let heap = Heap::find(memory)?;
        Some(Ok(Walk::of(memory, &heap, version, rows)))
    })
}

/// Where the parts of a heap are.
struct Heap {
    main: u64,
    free_slots: u64,
    /// `main_chunk`.
    main_at: u64,
    /// In a chunk.
    free_map: u64,
}

impl Heap {
    /// Finds the first chunk among the mappings.
    fn find(memory: &Seen) -> Option<Heap> {
        memory.areas().iter().find_map(|area| {
            let mapping = &area.mapping;
            let first = mapping.start.checked_next_multiple_of(CHUNK)?;
            let plain =
                mapping.path.is_none() && mapping.permissions.write && area.rss + area.swap > 0;
            let mut places = (first..mapping.end).step_by(CHUNK as usize);
            plain
                .then(|| places.find_map(|at| Heap::at(memory, at)))
                .flatten()
        })
    }

    fn at(memory: &impl Memory, chunk: u64) -> Option<Heap> {
        let heap = chunk + HEAP;
        if memory.u64(chunk) != Ok(heap) {
            return None;
        }
        let mut forms = FORMS.iter();
        let (slots, main) = forms.find(|(_, main)| memory.u64(heap + main) == Ok(chunk))?;
        let free = u64::from(memory.u32(chunk + 24).ok()?);
        let mut maps = (HEAP + main..PAGE / 2).step_by(8);
        let free_map = maps.find(|at| {
            let used =
                (0..8).map(|word| memory.u64(chunk + at + word * 8).unwrap_or(0).count_ones());
            memory.u32(chunk + at + 64) == Ok(OWN_PAGE)
                && u64::from(used.sum::<u32>()) + free == PAGES
        })?;
        Some(Heap {
            main: chunk,
            free_slots: heap + slots,
            main_at: heap + main,
            free_map,
        })
    }

    /// The chunks in use: a ring from the first one on.
    fn chunks(&self, memory: &impl Memory) -> Vec<u64> {
        let mut met = HashSet::new();
        let mut at = self.main;
        let mut chunks = Vec::new();
        while at.is_multiple_of(CHUNK) && met.insert(at) && chunks.len() < MOST_CHUNKS {
            if memory.u64(at) != Ok(self.main + HEAP) {
                break;
            }
            chunks.push(at);
            let Ok(next) = memory.u64(at + 8) else {
                break;
            };
            at = next;
        }
        chunks
    }

    /// The free slots of each size.
    fn free(&self, memory: &impl Memory) -> HashSet<u64> {
        let mut free = HashSet::new();
        for bin in 0..BINS.len() as u64 {
            let mut slot = memory.u64(self.free_slots + bin * 8).unwrap_or(0);
            while slot != 0 && free.len() < MOST && free.insert(slot) {
                slot = memory.u64(slot).unwrap_or(0);
            }
        }
        free
    }
}

struct Walk {
    heap: VmHeap,
    claims: Vec<Claim>,
    rows: HeapRows,
}

impl Walk {
    fn of(memory: &Seen, heap: &Heap, version: String, rows: &mut Rows) -> (VmHeap, Layer) {
        let mut walk = Walk {
            heap: VmHeap::new(Language::Php, version),
            claims: Vec::new(),
            rows: HeapRows::of(Language::Php, rows),
        };
        let free = heap.free(memory);
        for chunk in heap.chunks(memory) {
            walk.chunk(memory, heap, chunk, &free);
        }
        walk.cached(memory, heap);
        walk.huge(memory, heap);
        (walk.heap, Layer::of(walk.claims))
    }

    fn chunk(&mut self, memory: &Seen, heap: &Heap, chunk: u64, free: &HashSet<u64>) {
        self.heap.bytes += CHUNK;
        self.heap.pages += PAGES;
        self.claim(chunk..chunk + PAGE, self.rows.records);
        let mut page = 1;
        while page < PAGES {
            let at = chunk + page * PAGE;
            let word = memory.u64(chunk + heap.free_map + page / 64 * 8);
            let info = memory.u32(chunk + heap.free_map + 64 + page * 4);
            let (Ok(word), Ok(info)) = (word, info) else {
                self.heap.unread += PAGES - page;
                return;
            };
            let count = if word >> (page % 64) & 1 == 0 {
                self.heap.empty_pages += 1;
                self.heap.empty_bytes += PAGE;
                self.claim(at..at + PAGE, self.rows.empty);
                1
            } else if info & SLOTS != 0 && info & ROW == 0 {
                self.slots(at, (info & 0x1f) as usize, PAGES - page, free)
            } else if info & (SLOTS | ROW) == ROW {
                let count = u64::from(info & 0x3ff).clamp(1, PAGES - page);
                self.heap.used += 1;
                self.heap.used_bytes += count * PAGE;
                self.claim(at..at + count * PAGE, self.rows.used);
                count
            } else {
                self.heap.unread += 1;
                1
            };
            page += count;
        }
    }

    /// Pages that are cut into slots; returns how many.
    fn slots(&mut self, at: u64, bin: usize, most: u64, free: &HashSet<u64>) -> u64 {
        let Some((size, pages)) = BINS.get(bin).filter(|(_, pages)| *pages <= most) else {
            self.heap.unread += 1;
            return 1;
        };
        let slots = pages * PAGE / size;
        let mut used = 0;
        for slot in (0..slots).map(|number| at + number * size) {
            let row = if free.contains(&slot) {
                self.rows.free
            } else {
                used += 1;
                self.rows.used
            };
            self.claim(slot..slot + size, row);
        }
        self.claim(at + slots * size..at + pages * PAGE, self.rows.records);
        self.heap.used += used;
        self.heap.used_bytes += used * size;
        self.heap.free += slots - used;
        self.heap.free_bytes += (slots - used) * size;
        self.heap.sparse_pages += if used * 4 <= slots { *pages } else { 0 };
        *pages
    }

    /// Chunks that it keeps for later.
    fn cached(&mut self, memory: &Seen, heap: &Heap) {
        let mut at = memory.u64(heap.main_at + 8).unwrap_or(0);
        let mut met = HashSet::new();
        while at != 0 && at.is_multiple_of(CHUNK) && met.len() < MOST_CHUNKS && met.insert(at) {
            self.heap.bytes += CHUNK;
            self.heap.pages += PAGES;
            self.heap.empty_pages += PAGES;
            self.heap.empty_bytes += CHUNK;
            self.claim(at..at.saturating_add(CHUNK), self.rows.empty);
            at = memory.u64(at.saturating_add(8)).unwrap_or(0);
        }
    }

    /// Blocks with mappings of their own.
    fn huge(&mut self, memory: &Seen, heap: &Heap) {
        let mut entry = memory.u64(heap.main_at - 8).unwrap_or(0);
        let mut met = HashSet::new();
        while entry != 0 && met.len() < MOST_CHUNKS && met.insert(entry) {
            let word = |offset: u64| memory.u64(entry.saturating_add(offset)).unwrap_or(0);
            let (start, size, next) = (word(0), word(8), word(16));
            if !start.is_multiple_of(CHUNK) || !size.is_multiple_of(PAGE) || size > 1 << 40 {
                self.heap.unread += 1;
                return;
            }
            self.heap.bytes += size;
            self.heap.pages += size / PAGE;
            self.heap.used += 1;
            self.heap.used_bytes += size;
            self.claim(start..start.saturating_add(size), self.rows.used);
            entry = next;
        }
    }

    /// Adds a range, to the one before it where that is of the same row.
    fn claim(&mut self, range: Range<u64>, row: RowId) {
        let full = self.claims.len() >= MOST;
        match self.claims.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start && last.row == row => last.end = range.end,
            _ if full => {}
            _ => self.claims.push(Claim::new(range, row)),
        }
    }
}
