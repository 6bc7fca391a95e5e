//! The allocator of requests (`zend_mm`): chunks of 2 MiB, each with a map of its pages. Used by the crates `languages`
//! and `agent`.
//!
//! ```text
//!   chunk, aligned to 2 MiB: heap, next, prev, free_pages, free_tail, num, …, heap_slot at 64, free_map, map[512]    one page
//!                             │                                                  a bit a page ┘        └ a half a page:
//!                             ▼ in the first chunk                                   bit 31: slots of a size (bits 0 to 4),
//!   heap: …, size, peak, …, free_slot[30], real_size, real_peak, limit, overflow,    bit 30 besides: not the first of its pages;
//!         huge_list, main_chunk, cached_chunks                                       bit 30 alone: pages in a row
//! ```
//!
//! (`Zend/zend_alloc.c` and `zend_alloc_sizes.h` of PHP 7.3; what 7.4, 8.2, 8.4, 8.5 and 8.6 of Debian have was read in them.) Free slots of a size are
//! a list from `free_slot` on through their first words. What differs between versions is known by `main_chunk`, which leads back, and
//! `free_map` and `map` are found by the first page, which is the chunk's own. What is larger than 2 MiB has mappings of its own, which
//! `huge_list` lists: `ptr`, `size`, `next`.

use crate::{Fault, Memory};

/// Bytes of a chunk, to a multiple of which it is aligned (`ZEND_MM_CHUNK_SIZE`).
pub const CHUNK: u64 = 2 << 20;
/// Bytes of a page of a chunk (`ZEND_MM_PAGE_SIZE`).
pub const PAGE: u64 = 4096;
/// Pages of a chunk.
pub const PAGES: u64 = CHUNK / PAGE;

/// Offsets of `heap_slot` and `next` in a chunk.
const HEAP: u64 = 64;
const NEXT: u64 = 8;
/// `size` in the heap, which is what `memory_get_usage()` returns.
const SIZE: u64 = 16;
/// Where versions have what differs between them.
struct Form {
    /// Offset of `free_pages` in a chunk.
    free_pages: u64,
    /// Offset of `free_slot` in the heap.
    free_slots: u64,
    /// Offset of `main_chunk` in the heap. `huge_list` is right before it, `cached_chunks` right behind it.
    main: u64,
}

/// 7.4 and 8.2; 8.2.36, which has two words more before `main_chunk`; 8.4, which has them too, and `shadow_key` before `free_slot`; 8.5, which
/// has not the two words; and 8.6, whose chunks have a word more before `free_pages`.
const FORMS: [Form; 5] = [
    Form {
        free_pages: 24,
        free_slots: 32,
        main: 312,
    },
    Form {
        free_pages: 24,
        free_slots: 32,
        main: 328,
    },
    Form {
        free_pages: 24,
        free_slots: 40,
        main: 336,
    },
    Form {
        free_pages: 24,
        free_slots: 40,
        main: 320,
    },
    Form {
        free_pages: 32,
        free_slots: 40,
        main: 320,
    },
];
/// Offset of `free_slot` where slots of 8 bytes are not handed out any more (since 8.4).
const SHADOWED: u64 = 40;
/// `map[0]`: one page in a row.
const OWN_PAGE: u32 = 0x4000_0001;
const SLOTS: u32 = 1 << 31;
const ROW: u32 = 1 << 30;
/// Bits of the word in `map` of a page that is not the first of its slots: how many pages precede it.
const BEFORE: u32 = 0x1ff;
const BEFORE_AT: u32 = 16;

/// Sizes of slots, and pages that slots of a size are cut from (`ZEND_MM_BINS_INFO`).
pub const BINS: [(u64, u64); 30] = [
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

/// Where the parts of a heap are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Address of the first chunk, which has the heap's record in it.
    pub main: u64,
    /// Address of `free_slot` in the heap.
    free_slots: u64,
    /// Address of `main_chunk` in the heap.
    main_at: u64,
    /// Offset of `free_map` in a chunk.
    free_map: u64,
}

/// What a page of a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is in no block: its bit in `free_map` is 0.
    Empty,
    /// The first of the pages that slots of this size are cut from: an index of [`BINS`].
    Slots(usize),
    /// One of the pages of slots that is not the first: the index of its size, and how many of these pages precede it.
    MoreSlots(usize, u64),
    /// The first of so many that are one block.
    Row(u64),
    /// It is in use, and its word in `map` is of none of these forms.
    Unknown,
}

/// Returns the offset of `free_map` in the first chunk: it has a bit for each page that is not free, and `map` follows it, which says that the
/// first page is the chunk's own.
fn free_map(memory: &impl Memory, chunk: u64, form: &Form) -> Option<u64> {
    let free = u64::from(memory.u32(chunk + form.free_pages).ok()?);
    (HEAP + form.main..PAGE / 2).step_by(8).find(|at| {
        let words = (0..8).map(|word| memory.u64(chunk + at + word * 8).unwrap_or(0));
        let used: u32 = words.map(u64::count_ones).sum();
        memory.u32(chunk + at + 64) == Ok(OWN_PAGE) && u64::from(used) + free == PAGES
    })
}

impl Allocator {
    /// Reads where the parts are, if there is a chunk at an address that is a multiple of [`CHUNK`] and it is the first.
    pub fn at(memory: &impl Memory, chunk: u64) -> Option<Allocator> {
        if !chunk.is_multiple_of(CHUNK) {
            return None;
        }
        let heap = chunk + HEAP;
        if memory.u64(chunk) != Ok(heap) {
            return None;
        }
        FORMS.iter().find_map(|form| {
            let is_main = memory.u64(heap + form.main) == Ok(chunk);
            let free_map = is_main.then(|| free_map(memory, chunk, form))??;
            Some(Allocator {
                main: chunk,
                free_slots: heap + form.free_slots,
                main_at: heap + form.main,
                free_map,
            })
        })
    }

    /// Finds the heap that a block at an address belongs to: its chunk leads to the heap, which lies in the first one.
    pub fn of(memory: &impl Memory, address: u64) -> Option<Allocator> {
        let heap = memory.u64(address & !(CHUNK - 1)).ok()?;
        let chunk = heap & !(CHUNK - 1);
        Allocator::at(memory, chunk)
    }

    /// Returns what `memory_get_usage()` returns: the bytes of all blocks in use.
    pub fn in_use(&self, memory: &impl Memory) -> Result<u64, Fault> {
        memory.u64(self.main + HEAP + SIZE)
    }

    /// Returns the chunk that follows in the ring of those in use, which begins and ends at [`main`](Self::main).
    pub fn next_chunk(&self, memory: &impl Memory, chunk: u64) -> Option<u64> {
        let next = memory.u64(chunk.checked_add(NEXT)?).ok()?;
        let is_one = next.is_multiple_of(CHUNK) && memory.u64(next) == Ok(self.main + HEAP);
        is_one.then_some(next)
    }

    /// Returns the address of the word that leads to the first free slot of a size.
    pub fn free_slot(&self, bin: usize) -> u64 {
        self.free_slots + bin as u64 * 8
    }

    /// Returns the first chunk that it keeps for later; 0 if none.
    pub fn cached(&self, memory: &impl Memory) -> Result<u64, Fault> {
        memory.u64(self.main_at + 8)
    }

    /// Returns the first entry of the list of large blocks; 0 if none.
    pub fn large(&self, memory: &impl Memory) -> Result<u64, Fault> {
        memory.u64(self.main_at - 8)
    }

    /// Returns address and size of a large block, and the next entry. `None`: it cannot be one.
    pub fn large_block(&self, memory: &impl Memory, entry: u64) -> Option<(u64, u64, u64)> {
        let word = |offset: u64| memory.u64(entry.checked_add(offset)?).ok();
        let (start, size, next) = (word(0)?, word(8)?, word(16)?);
        let may_be = start.is_multiple_of(CHUNK) && size.is_multiple_of(PAGE) && size <= 1 << 40;
        may_be.then_some((start, size, next))
    }

    /// Returns what a page of a chunk is, from its number.
    pub fn page(&self, memory: &impl Memory, chunk: u64, page: u64) -> Result<Use, Fault> {
        let word = memory.u64(chunk + self.free_map + page / 64 * 8)?;
        if word >> (page % 64) & 1 == 0 {
            return Ok(Use::Empty);
        }
        let info = memory.u32(chunk + self.free_map + 64 + page * 4)?;
        let bin = (info & 0x1f) as usize;
        Ok(match (info & SLOTS != 0, info & ROW != 0) {
            (true, false) => Use::Slots(bin),
            (true, true) => Use::MoreSlots(bin, (info >> BEFORE_AT & BEFORE).into()),
            (false, true) => Use::Row((info & 0x3ff).into()),
            (false, false) => Use::Unknown,
        })
    }

    /// Returns the size of the block that begins at an address in a chunk; `None` if none begins there.
    pub fn block(&self, memory: &impl Memory, address: u64) -> Option<u64> {
        let chunk = address & !(CHUNK - 1);
        let page = (address - chunk) / PAGE;
        if page == 0 {
            return None;
        }
        let (bin, first) = match self.page(memory, chunk, page).ok()? {
            Use::Slots(bin) => (bin, page),
            Use::MoreSlots(bin, before) => (bin, page.checked_sub(before)?),
            Use::Row(pages) => {
                return (address.is_multiple_of(PAGE) && page + pages <= PAGES)
                    .then_some(pages * PAGE);
            }
            Use::Empty | Use::Unknown => return None,
        };
        let (size, pages) = *BINS.get(bin)?;
        let distance = address - chunk - first * PAGE;
        let is_start = distance.is_multiple_of(size) && distance + size <= pages * PAGE;
        is_start.then_some(size)
    }

    /// Returns the address of the heap's record.
    pub fn heap(&self) -> u64 {
        self.main + HEAP
    }

    /// Returns by how much `memory_get_usage()` rises for a block of so many bytes, without the 24 to 32 bytes of the entry of one that has
    /// mappings of its own.
    #[inline]
    pub fn taken(&self, size: u64) -> u64 {
        let size = self.least(size);
        match bin_of(size).and_then(|bin| BINS.get(bin)) {
            Some((bytes, _)) => *bytes,
            None => size.checked_next_multiple_of(PAGE).unwrap_or(size),
        }
    }

    /// Whether the engine has a free slot for a block of so many bytes: then it neither looks at the limit nor maps memory for it.
    #[inline]
    pub fn has_slot(&self, memory: &impl Memory, size: u64) -> Result<bool, Fault> {
        match bin_of(self.least(size)) {
            Some(bin) => Ok(memory.u64(self.free_slot(bin))? != 0),
            None => Ok(false),
        }
    }

    /// The size that a block of so many bytes has at least.
    #[inline]
    fn least(&self, size: u64) -> u64 {
        match self.free_slots - self.heap() == SHADOWED {
            true => size.max(16),
            false => size.max(8),
        }
    }
}

/// The bin of the slots for blocks of so many bytes; `None` if they are larger (`ZEND_MM_SMALL_SIZE_TO_BIN`).
#[inline]
fn bin_of(size: u64) -> Option<usize> {
    let last = size.max(1) - 1;
    if size <= 64 {
        return Some((last >> 3) as usize);
    }
    // Four sizes for each power of two.
    let shift = 61 - last.leading_zeros();
    (size <= 3072).then(|| ((last >> shift) + u64::from((shift - 3) << 2)) as usize)
}

#[cfg(test)]
mod tests {
    use super::{BINS, bin_of};

    #[test]
    fn each_size_has_the_smallest_bin_that_holds_it() {
        for size in 0..=3072 {
            let wanted = BINS.iter().position(|(bytes, _)| *bytes >= size);
            assert_eq!(bin_of(size), wanted, "{size}");
        }
        assert_eq!(bin_of(3073), None);
    }
}
