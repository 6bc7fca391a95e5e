//! The chunks of a heap that the program changes while they are walked.
//!
//! ```text
//!   mark        mark        mark    Broken: no chunk can be here
//!   │ 256 chunks │ 256 chunks │ …    ▼
//!   └────────────┴────────────┴──────●        1. back to the last mark, with the blocks from there on read anew
//!                └───────────────────●        2. no further than before: back twice as many marks
//!   └────────────────────────────────●…       3. and so on, to the heap's beginning
//! ```
//!
//! Blocks of 64 KiB are read one after the other, so a chunk that was freed, joined and given out again between two of these reads leads
//! into the middle of something. What lies before is whole nevertheless. A walk that began anew at the heap's beginning each time would meet
//! the next change somewhere else, and would never end in a heap of some hundred MiB that is written all the time.

use std::ops::Range;

use vm::Memory;

use super::find::{Arena, HEAP_MAX};
use super::walk::{Chunk, End, size, walk};
use super::{ArenaFigures, Heap, Part, Walked};
use process::resident_memory::ResidentMemory;

/// Chunks between two marks.
const APART: usize = 256;
/// How often a walk goes back at most without coming further than before. The last times lead back to the heap's beginning.
const STUCK: u32 = 12;
/// From so many times on the mappings are read anew, too: it may have given memory back.
const MAPPINGS: u32 = 3;

/// A chunk's address, with what was known when the walk came there.
struct Mark {
    at: u64,
    parts: usize,
    last: Option<Range<u64>>,
    figures: ArenaFigures,
    caches: usize,
    full: Option<u64>,
}

impl Walked {
    /// Walks the chunks of one heap.
    pub(super) fn heap(&mut self, memory: &ResidentMemory, arena: &Arena, heap: &Heap) {
        let begin = self.parts.len();
        let mut marks = vec![self.mark(heap.chunks.start)];
        let (mut furthest, mut stuck) = (0, 0);
        let (top, broken) = loop {
            let from = marks.last().map_or(heap.chunks.start, |mark| mark.at);
            let top = memory.u64(arena.top_at()).unwrap_or(arena.top);
            let mut count = 0;
            let end = walk(memory, from..heap.chunks.end, top, &mut |chunk| {
                self.chunk(begin, chunk);
                count += 1;
                if count % APART == 0 {
                    marks.push(self.mark(chunk.range().end));
                }
            });
            let End::Broken(at) = end else {
                break (top, None);
            };
            // Only what was read twice says so: a walk that was led astray meets any words.
            let read_twice = stuck > 0 && at == furthest;
            if read_twice && size(memory, at).is_some_and(|size| leads_beyond(at, size, heap, top))
            {
                let chunk = Chunk {
                    start: at,
                    size: heap.chunks.end - at,
                    used: true,
                };
                self.chunk(begin, chunk);
                break (top, None);
            }
            if at > furthest {
                (furthest, stuck) = (at, 0);
            }
            if stuck == STUCK || memory.is_over() {
                break (top, Some(at));
            }
            stuck += 1;
            let back = (1_usize << stuck) / 2;
            marks.truncate(marks.len().saturating_sub(back - 1).max(1));
            let Some(mark) = marks.last() else {
                break (top, Some(at));
            };
            self.go_back(mark);
            match stuck >= MAPPINGS {
                true => memory.forget(),
                false => memory.forget_from(mark.at.min(arena.top_at())),
            }
        };
        if let Some(at) = self.full.take().or(broken) {
            self.figures.unread += heap.chunks.end - at;
        } else if heap.chunks.contains(&top) {
            self.figures.top += heap.chunks.end - top;
            self.parts.push((top..heap.chunks.end, Part::Top));
        }
        self.parts
            .push((heap.whole.start..heap.chunks.start, Part::Records));
    }

    fn mark(&self, at: u64) -> Mark {
        Mark {
            at,
            parts: self.parts.len(),
            last: self.parts.last().map(|(range, _)| range.clone()),
            figures: self.figures,
            caches: self.caches.len(),
            full: self.full,
        }
    }

    fn go_back(&mut self, mark: &Mark) {
        self.parts.truncate(mark.parts);
        if let (Some((range, _)), Some(last)) = (self.parts.last_mut(), &mark.last) {
            *range = last.clone();
        }
        self.figures = mark.figures;
        self.caches.truncate(mark.caches);
        self.full = mark.full;
    }
}

/// Whether a chunk, where a walk ended, leads beyond the end of its heap, which has grown since that end was read. Only the heap in which
/// the top of its arena lies grows.
fn leads_beyond(at: u64, size: u64, heap: &Heap, top: u64) -> bool {
    let next = at.saturating_add(size);
    let start = heap.whole.start;
    let is_its_top = match start.is_multiple_of(HEAP_MAX) {
        true => (start..start.saturating_add(HEAP_MAX)).contains(&top),
        // The heap of the main arena, which brk(2) makes longer.
        false => top.saturating_sub(heap.chunks.end) <= HEAP_MAX,
    };
    is_its_top && size.is_multiple_of(16) && next > heap.chunks.end && next <= top
}
