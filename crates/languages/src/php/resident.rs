//! Which bytes of a PHP's heap hold blocks: [`vm::php::allocator`] read for the ledger of resident memory. Used by
//! `php`.

use std::collections::HashSet;

use vm::php::Facts;
use vm::php::allocator::{Allocator, BINS, CHUNK, PAGE, PAGES, Use};
use vm::{Language, Memory};

use crate::resident::claims::{Claim, Layer, MOST, add};
use crate::resident::rows::Rows;
use crate::resident::{HeapRows, LoadedFiles, VmHeap, steadiest};
use process::resident_memory::ResidentMemory;

/// The most chunks and large blocks: 1 TiB.
const MOST_CHUNKS: usize = 1 << 19;

/// Looks for the heap of a PHP; `None` if the process has no PHP, or one without a heap of its own.
pub fn look(
    memory: &ResidentMemory,
    loaded: &dyn LoadedFiles,
    rows: &mut Rows,
) -> Option<Result<(VmHeap, Layer), String>> {
    let (symbols, _) = loaded.with_data(Language::Php.description().mark)?;
    let symbol = |name: &str| symbols.symbol(name).map(|symbol| symbol.address);
    steadiest(memory, || {
        // The layout is found by looking, so that a version without a reader has a ledger, too.
        let version = Facts::find(memory, &symbol)
            .map_or_else(|_| String::new(), |facts| facts.version().to_string());
        // None with `USE_ZEND_ALLOC=0`, where everything comes from malloc.
        let heap = find(memory)?;
        Some(Ok(Walk::of(memory, &heap, version, rows)))
    })
}

/// Finds the first chunk among the mappings.
fn find(memory: &ResidentMemory) -> Option<Allocator> {
    memory.areas().iter().find_map(|area| {
        let mapping = &area.mapping;
        let first = mapping.start.checked_next_multiple_of(CHUNK)?;
        let plain = mapping.path.is_none() && mapping.permissions.write && area.rss + area.swap > 0;
        let mut places = (first..mapping.end).step_by(CHUNK as usize);
        plain
            .then(|| places.find_map(|at| Allocator::at(memory, at)))
            .flatten()
    })
}

/// The chunks in use: a ring from the first one on.
fn chunks(heap: &Allocator, memory: &impl Memory) -> Vec<u64> {
    let mut met = HashSet::new();
    let mut at = Some(heap.main);
    let mut chunks = Vec::new();
    while let Some(chunk) = at
        && met.insert(chunk)
        && chunks.len() < MOST_CHUNKS
    {
        chunks.push(chunk);
        at = heap.next_chunk(memory, chunk);
    }
    chunks
}

/// The free slots of each size.
fn free(heap: &Allocator, memory: &impl Memory) -> HashSet<u64> {
    let mut free = HashSet::new();
    for bin in 0..BINS.len() {
        let mut slot = memory.u64(heap.free_slot(bin)).unwrap_or(0);
        while slot != 0 && free.len() < MOST && free.insert(slot) {
            slot = memory.u64(slot).unwrap_or(0);
        }
    }
    free
}

struct Walk {
    heap: VmHeap,
    claims: Vec<Claim>,
    rows: HeapRows,
}

impl Walk {
    fn of(
        memory: &ResidentMemory,
        heap: &Allocator,
        version: String,
        rows: &mut Rows,
    ) -> (VmHeap, Layer) {
        let mut walk = Walk {
            heap: VmHeap::new(Language::Php, version),
            claims: Vec::new(),
            rows: HeapRows::of(Language::Php, rows),
        };
        let free = free(heap, memory);
        for chunk in chunks(heap, memory) {
            walk.chunk(memory, heap, chunk, &free);
        }
        walk.cached(memory, heap);
        walk.huge(memory, heap);
        (walk.heap, Layer::of(walk.claims))
    }

    fn chunk(
        &mut self,
        memory: &ResidentMemory,
        heap: &Allocator,
        chunk: u64,
        free: &HashSet<u64>,
    ) {
        self.heap.bytes += CHUNK;
        self.heap.pages += PAGES;
        add(&mut self.claims, chunk..chunk + PAGE, self.rows.records);
        let mut page = 1;
        while page < PAGES {
            let at = chunk + page * PAGE;
            let Ok(is) = heap.page(memory, chunk, page) else {
                self.heap.unread += PAGES - page;
                return;
            };
            let count = match is {
                Use::Empty => {
                    self.heap.empty_pages += 1;
                    self.heap.empty_bytes += PAGE;
                    add(&mut self.claims, at..at + PAGE, self.rows.empty);
                    1
                }
                Use::Slots(bin) => self.slots(at, bin, PAGES - page, free),
                Use::Row(count) => {
                    let count = count.clamp(1, PAGES - page);
                    self.heap.used += 1;
                    self.heap.used_bytes += count * PAGE;
                    add(&mut self.claims, at..at + count * PAGE, self.rows.used);
                    count
                }
                Use::MoreSlots(..) | Use::Unknown => {
                    self.heap.unread += 1;
                    1
                }
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
            add(&mut self.claims, slot..slot + size, row);
        }
        add(
            &mut self.claims,
            at + slots * size..at + pages * PAGE,
            self.rows.records,
        );
        self.heap.used += used;
        self.heap.used_bytes += used * size;
        self.heap.free += slots - used;
        self.heap.free_bytes += (slots - used) * size;
        self.heap.sparse_pages += if used * 4 <= slots { *pages } else { 0 };
        *pages
    }

    /// Chunks that it keeps for later.
    fn cached(&mut self, memory: &ResidentMemory, heap: &Allocator) {
        let mut at = heap.cached(memory).unwrap_or(0);
        let mut met = HashSet::new();
        while at != 0 && at.is_multiple_of(CHUNK) && met.len() < MOST_CHUNKS && met.insert(at) {
            self.heap.bytes += CHUNK;
            self.heap.pages += PAGES;
            self.heap.empty_pages += PAGES;
            self.heap.empty_bytes += CHUNK;
            add(
                &mut self.claims,
                at..at.saturating_add(CHUNK),
                self.rows.empty,
            );
            at = memory.u64(at.saturating_add(8)).unwrap_or(0);
        }
    }

    /// Blocks with mappings of their own.
    fn huge(&mut self, memory: &ResidentMemory, heap: &Allocator) {
        let mut entry = heap.large(memory).unwrap_or(0);
        let mut met = HashSet::new();
        while entry != 0 && met.len() < MOST_CHUNKS && met.insert(entry) {
            let Some((start, size, next)) = heap.large_block(memory, entry) else {
                self.heap.unread += 1;
                return;
            };
            self.heap.bytes += size;
            self.heap.pages += size / PAGE;
            self.heap.used += 1;
            self.heap.used_bytes += size;
            add(
                &mut self.claims,
                start..start.saturating_add(size),
                self.rows.used,
            );
            entry = next;
        }
    }
}
