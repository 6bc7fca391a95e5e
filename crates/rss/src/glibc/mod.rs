//! glibc's allocator: what it has from the kernel, what of that the program has, and what lies free. Used by
//! `findings`.
//!
//! | module | what |
//! |---|---|
//! | `find` | its state: `main_arena`, the list of the others, `malloc_par` |
//! | `walk` | the chunks of a heap |
//! | `changing_chunks` | the same of a heap that the program changes meanwhile |
//! | `caches` | free chunks that pass for used |
//! | `trim` | what `malloc_trim` would give back |
//!
//! Everything read is the process's word. Each list and each heap is walked within bounds, and a chunk counts only where it lies in a
//! heap of its arena.

mod caches;
mod changing_chunks;
mod find;
#[cfg(test)]
mod tests;
mod trim;
mod walk;

use std::ops::Range;

use vm::Memory;

use find::{Arena, Found, HEAP_MAX};
use languages::resident::claims::{Claim, Layer, MOST, overlaid};
use languages::resident::rows::{Kind, Rows};
use process::resident_memory::ResidentMemory;
use process::runs::within;
use walk::Chunk;

/// How often all is walked at most because it changed meanwhile.
const TRIES: u32 = 3;
/// The most heaps of one arena: 64 GiB.
const MOST_HEAPS: usize = 1 << 10;

/// What an arena holds, by its own records: bytes of its chunks, in memory or not. `malloc_info` and `mallinfo2` say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaFigures {
    /// What it has from the kernel (`system_mem`; the sum over arenas is `mallinfo2().arena`).
    pub system: u64,
    /// Chunks that the program has.
    pub used: u64,
    /// Chunks in bins, free.
    pub free: u64,
    /// Number of those free chunks.
    pub free_chunks: u64,
    /// Chunks in fastbins, free (`fsmblks`).
    pub fast: u64,
    /// Chunks in the caches of threads, free, which `mallinfo2` counts as used.
    pub cached: u64,
    /// The last chunk, free.
    pub top: u64,
    /// Whole pages within free chunks that are in memory: what `malloc_trim(0)` would give back.
    pub returnable: u64,
    /// Number of heaps that it consists of.
    pub heaps: u64,
    /// Bytes of heaps of which a walk came to no end, because the program changed them meanwhile or because they are damaged.
    pub unread: u64,
    /// Whether it is the main arena.
    pub main: bool,
}

/// What glibc's allocator holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Malloc {
    /// The main arena first.
    pub arenas: Vec<ArenaFigures>,
    /// Number of chunks with mappings of their own that were found.
    pub mapped: u64,
    /// Bytes of these mappings.
    pub mapped_bytes: u64,
    /// What the allocator itself says of these two (`hblks`, `hblkhd`), where its record of it was found.
    pub mapped_said: Option<(u64, u64)>,
}

/// Finds the allocator by a module's variables, and walks it. Returns what it holds, and which addresses are whose.
pub fn look(
    memory: &ResidentMemory,
    data: &[Range<u64>],
    resident: trim::InMemory,
    rows: &mut Rows,
) -> Option<(Malloc, Layer)> {
    let mut best: Option<(Found, Vec<Walked>)> = None;
    for _ in 0..TRIES {
        let Some(walked) = walked(memory, data) else {
            // Its lists may be changing.
            memory.forget();
            continue;
        };
        let unread = |all: &[Walked]| all.iter().map(|one| one.figures.unread).sum::<u64>();
        let now = unread(&walked.1);
        if best.as_ref().is_none_or(|(_, all)| unread(all) > now) {
            best = Some(walked);
        }
        if now == 0 {
            break;
        }
        memory.forget();
    }
    let (found, mut all) = best?;
    let layer = Layers::of(&mut all, resident, rows);
    let mapped = mapped(memory, &layer, rows);
    let mapped_sizes = mapped.iter().map(|claim| claim.end - claim.start);
    let malloc = Malloc {
        arenas: all.iter().map(|walked| walked.figures).collect(),
        mapped: mapped.len() as u64,
        mapped_bytes: mapped_sizes.sum(),
        mapped_said: found.parameters.map(|one| (one.mapped, one.mapped_bytes)),
    };
    Some((malloc, overlaid(&layer, &Layer::of(mapped))))
}

/// The allocator, and what lies in each of its arenas.
fn walked(memory: &ResidentMemory, data: &[Range<u64>]) -> Option<(Found, Vec<Walked>)> {
    let areas = memory.areas();
    let brk = areas.iter().filter(|area| area.mapping.is_named("[heap]"));
    let brk = brk.map(|area| area.mapping.start..area.mapping.end);
    let brk = brk.reduce(|one, other| one.start..other.end);
    let found = find::find(memory, data, brk.clone())?;
    let heaps_of = |arena: &Arena| match (arena.main, &brk) {
        (true, Some(brk)) => main_heap(memory, arena, &found, brk),
        (true, None) => Vec::new(),
        (false, _) => heaps(memory, arena),
    };
    let mut room = MOST;
    let mut all = Vec::new();
    for arena in &found.arenas {
        let walked = Walked::of(memory, arena, heaps_of(arena), room);
        room = room.saturating_sub(walked.parts.len());
        all.push(walked);
    }
    find_cached(memory, &found, &mut all);
    Some((found, all))
}

/// A heap: its chunks from `start` on.
#[derive(Clone, Debug)]
struct Heap {
    /// Everything, with the allocator's records.
    whole: Range<u64>,
    /// The part of it in which chunks lie.
    chunks: Range<u64>,
}

/// The memory that the main arena has by `brk`, as far as it was mapped when the mappings were read: it may have grown since.
fn main_heap(
    memory: &ResidentMemory,
    arena: &Arena,
    found: &Found,
    heap: &Range<u64>,
) -> Vec<Heap> {
    if arena.top < heap.start {
        return Vec::new();
    }
    let end = walk::size(memory, arena.top).and_then(|size| arena.top.checked_add(size));
    let is_in = |end: &u64| heap.contains(&arena.top) && *end <= heap.end;
    let end = end.filter(is_in).unwrap_or(heap.end);
    let start = found.parameters.map_or(heap.start, |one| one.sbrk_base);
    let start = start.next_multiple_of(16);
    vec![Heap {
        whole: start..end,
        chunks: start..end,
    }]
}

/// The heaps of another arena, the newest first: each begins with its `heap_info`: `ar_ptr`, `prev`, `size`.
fn heaps(memory: &impl Memory, arena: &Arena) -> Vec<Heap> {
    let first = arena.state - arena.state % HEAP_MAX;
    let info = arena.state - first;
    let mut found: Vec<Heap> = Vec::new();
    let mut at = arena.top - arena.top % HEAP_MAX;
    while at != 0 && found.len() < MOST_HEAPS && found.iter().all(|heap| heap.whole.start != at) {
        let word = |offset: u64| memory.u64(at.wrapping_add(offset));
        let (Ok(owner), Ok(previous), Ok(size)) = (word(0), word(8), word(16)) else {
            break;
        };
        if owner != arena.state || size > HEAP_MAX || !at.is_multiple_of(HEAP_MAX) {
            break;
        }
        let records = if at == first { arena.end } else { at + info };
        found.push(Heap {
            whole: at..at + size,
            chunks: records.next_multiple_of(16)..at + size,
        });
        at = previous;
    }
    found
}

/// What a walk over the heaps of an arena has found.
struct Walked {
    figures: ArenaFigures,
    heaps: Vec<Heap>,
    /// Records, used and free chunks, the top: in order of address within a heap.
    parts: Vec<(Range<u64>, Part)>,
    /// Chunks in use that may be the cache of a thread.
    caches: Vec<Chunk>,
    /// Free chunks that pass for used, and whether in a fastbin.
    cached: Vec<(Chunk, bool)>,
    /// How many parts there may be; all arenas together may have [`MOST`].
    room: usize,
    /// The first chunk of the present heap that found no room. Of it and those behind it nothing is known.
    full: Option<u64>,
}

/// What a part of a heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Records,
    Used,
    Free,
    Top,
}

impl Walked {
    fn of(memory: &ResidentMemory, arena: &Arena, heaps: Vec<Heap>, room: usize) -> Self {
        let mut walked = Walked {
            figures: ArenaFigures {
                system: arena.system,
                heaps: heaps.len() as u64,
                main: arena.main,
                ..ArenaFigures::default()
            },
            heaps: Vec::new(),
            parts: Vec::new(),
            caches: Vec::new(),
            cached: Vec::new(),
            room,
            full: None,
        };
        for heap in &heaps {
            walked.heap(memory, arena, heap);
        }
        // What it has outside of heaps that are known: grown meanwhile, or not by `brk`.
        let known: u64 = heaps
            .iter()
            .map(|heap| heap.whole.end - heap.whole.start)
            .sum();
        if known == 0 {
            walked.figures.unread = arena.system;
        }
        walked.heaps = heaps;
        walked
    }

    fn chunk(&mut self, begin: usize, chunk: Chunk) {
        let last = self.parts[begin..].last().map(|(_, part)| *part);
        let joins = chunk.used && last == Some(Part::Used);
        if self.parts.len() >= self.room && !joins {
            self.full.get_or_insert(chunk.start);
        }
        if self.full.is_some() {
            return;
        }
        if caches::may_be_cache(&chunk) {
            self.caches.push(chunk);
        }
        let part = if chunk.used {
            self.figures.used += chunk.size;
            Part::Used
        } else {
            self.figures.free += chunk.size;
            self.figures.free_chunks += 1;
            Part::Free
        };
        let range = chunk.start..chunk.start + chunk.size;
        match self.parts.last_mut() {
            Some((last, _)) if joins => last.end = range.end,
            _ => self.parts.push((range, part)),
        }
    }

    fn those(&self, wanted: Part) -> impl Iterator<Item = Range<u64>> + '_ {
        let parts = self.parts.iter().filter(move |(_, part)| *part == wanted);
        parts.map(|(range, _)| range.clone())
    }

    /// The whole pages in free chunks.
    fn returnable(&self) -> Vec<Range<u64>> {
        let fast = self.cached.iter().filter(|(_, fast)| *fast);
        let fast = fast.map(|(chunk, _)| chunk.range());
        let mut free: Vec<Range<u64>> = fast.chain(self.those(Part::Free)).collect();
        // The kernel takes the end of the main arena back; those of the others `malloc_trim` leaves alone.
        if self.figures.main {
            free.extend(self.those(Part::Top));
        }
        trim::pages(free)
    }
}

/// Finds the free chunks that pass for used. A thread's cache lies in its own arena, and holds chunks of any.
fn find_cached(memory: &ResidentMemory, found: &Found, all: &mut [Walked]) {
    let mut places: Vec<(Range<u64>, usize)> = Vec::new();
    for (number, walked) in all.iter().enumerate() {
        places.extend(
            walked
                .heaps
                .iter()
                .map(|heap| (heap.chunks.clone(), number)),
        );
    }
    places.sort_by_key(|(range, _)| range.start);
    let arena_of = |at: u64| {
        let after = places.partition_point(|(range, _)| range.start <= at);
        let (range, number) = places.get(after.checked_sub(1)?)?;
        range.contains(&at).then_some(*number)
    };
    let in_heap = |at: u64| arena_of(at).is_some();
    let mut cached = Vec::new();
    for (arena, walked) in found.arenas.iter().zip(all.iter()) {
        let fast = arena
            .fastbins
            .map(|fastbins| caches::fast(memory, fastbins, &in_heap));
        cached.extend(
            fast.unwrap_or_default()
                .into_iter()
                .map(|chunk| (chunk, true)),
        );
        for cache in &walked.caches {
            let found = caches::cached(memory, cache, &in_heap).unwrap_or_default();
            cached.extend(found.into_iter().map(|chunk| (chunk, false)));
        }
    }
    for (chunk, fast) in cached {
        if let Some(walked) = arena_of(chunk.start).and_then(|number| all.get_mut(number)) {
            walked.cached.push((chunk, fast));
        }
    }
}

/// The ranges of all arenas in the making: chunks, over them those in caches, over them the pages that could be given back.
#[derive(Default)]
struct Layers {
    chunks: Vec<Claim>,
    cached: Vec<Claim>,
    pages: Vec<Claim>,
}

impl Layers {
    fn of(all: &mut [Walked], resident: trim::InMemory, rows: &mut Rows) -> Layer {
        let mut layers = Layers::default();
        for (number, walked) in all.iter_mut().enumerate() {
            layers.add(number, walked, resident, rows);
        }
        let chunks = overlaid(&Layer::of(layers.chunks), &Layer::of(layers.cached));
        overlaid(&chunks, &Layer::of(layers.pages))
    }

    fn add(
        &mut self,
        number: usize,
        walked: &mut Walked,
        resident: trim::InMemory,
        rows: &mut Rows,
    ) {
        let mut row = |kind| rows.id(kind, number.to_string());
        let parts = [
            (Part::Records, Kind::MallocRecords),
            (Part::Used, Kind::MallocUsed),
            (Part::Free, Kind::MallocFree),
            (Part::Top, Kind::MallocTop),
        ];
        let begin = self.chunks.len();
        for (part, kind) in parts {
            let row = row(kind);
            self.chunks
                .extend(walked.those(part).map(|range| Claim::new(range, row)));
        }
        // What was in a cache when that was read, and in none when the chunks were, has changed meanwhile; so has what is in two.
        let own = Layer::of(self.chunks[begin..].to_vec());
        let used = row(Kind::MallocUsed);
        walked.cached.sort_by_key(|(chunk, _)| chunk.start);
        walked.cached.dedup_by_key(|(chunk, _)| chunk.start);
        walked
            .cached
            .retain(|(chunk, _)| own.row_at(chunk.start) == Some(used));
        let cached = row(Kind::MallocCached);
        let figures = &mut walked.figures;
        for (chunk, fast) in &walked.cached {
            *(if *fast {
                &mut figures.fast
            } else {
                &mut figures.cached
            }) += chunk.size;
            self.cached.push(Claim::new(chunk.range(), cached));
        }
        figures.used = figures.used.saturating_sub(figures.fast + figures.cached);
        let pages = walked.returnable();
        walked.figures.returnable = pages
            .iter()
            .map(|range| resident(range.start, range.end))
            .sum();
        let returnable = row(Kind::MallocPages);
        self.pages
            .extend(pages.into_iter().map(|range| Claim::new(range, returnable)));
    }
}

/// Chunks with mappings of their own, in anonymous memory that nobody has.
fn mapped(memory: &ResidentMemory, taken: &Layer, rows: &mut Rows) -> Vec<Claim> {
    let row = rows.id(Kind::MallocMapped, String::new());
    let mut claims = Vec::new();
    for area in memory.areas().iter() {
        let mapping = &area.mapping;
        let plain = mapping.path.is_none() && mapping.permissions.read && mapping.permissions.write;
        let is_full = claims.len() >= MOST;
        if is_full || !plain || mapping.permissions.shared || area.rss + area.swap == 0 {
            continue;
        }
        mapped_within(memory, mapping.start..mapping.end, taken, |chunk| {
            claims.push(Claim::new(chunk, row));
            claims.len() < MOST
        });
    }
    claims
}

/// Tells the chunks of a mapping until `goes_on` says no, or the time is up. The page with a chunk's head was written, so only pages that are
/// somewhere are looked at: a mapping may be far larger than memory.
fn mapped_within(
    memory: &ResidentMemory,
    mapping: Range<u64>,
    taken: &Layer,
    mut goes_on: impl FnMut(Range<u64>) -> bool,
) {
    let runs = memory.runs();
    let mut at = mapping.start;
    for run in within(&runs, mapping.start, mapping.end) {
        at = at.max(run.start);
        while at < run.end.min(mapping.end) {
            if memory.is_over() {
                return;
            }
            let is_free = taken.row_at(at).is_none();
            let size = is_free.then(|| walk::mapped(memory, at, mapping.end));
            let Some(size) = size.flatten() else {
                at += 4096;
                continue;
            };
            if !goes_on(at..at + size) {
                return;
            }
            at += size;
        }
    }
}
