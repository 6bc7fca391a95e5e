//! The object heap, page by page, read without calling the VM. Used by `fiber` and `symbol`, and by the crates `agent`
//! and `languages`.
//!
//! ```text
//!   page body, aligned                                   struct heap_page, elsewhere
//!   ├─────┬───────────────────────────────────────┐      ┌────────────────────────────┐
//!   │  ●──┼───────────────────────────────────────┼─────▶│ total_slots, start, pool ● │
//!   │     │ slot │ slot │ slot │ …                │      └────────────────────────┼───┘
//!   └─────┴───────────────────────────────────────┘                               ▼
//!         ▲ start                                        objspace: pools[5], heap_pages.sorted[]
//! ```
//!
//! The header at the start of a page's body leads from any object to its `struct heap_page`. Since
//! 3.1 that page names its pool, an element of an array inside the objspace, and so every object
//! leads to the objspace and to the list of all pages, whether or not any symbol is exported. Before
//! 3.1 the way is `ruby_current_vm_ptr`, which those versions export.
//!
//! A slot that is not empty is not yet a live object: the collector sweeps lazily, and garbage keeps
//! its flags until then. Who wants live objects only must run a GC before, or decide reachability.

use core::cmp::Ordering;

use super::layout::PageCount;
use super::object::Type;
use super::{Error, Ruby};
use crate::{Fault, Memory};

/// Size of every slot before 3.1, and of the smallest since.
const SMALLEST_SLOT: u64 = 40;

/// More pages than any heap has: 256 GiB of small ones.
const MOST_PAGES: u64 = 1 << 24;

/// Pages in a row that are not sound; after so many the list is taken for garbage.
const MOST_BAD_PAGES: u32 = 64;

/// Bytes of slots that are read at once: a hundred small slots.
const PIECE: usize = 4096;

/// A page of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Address of its first slot.
    pub start: u64,
    /// Size of each slot in bytes.
    pub slot_size: u64,
    /// Number of its slots.
    pub total_slots: u64,
    /// Address of its `struct heap_page`.
    pub described_at: u64,
}

/// A slot that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Address of the slot, which is the object's `VALUE`.
    pub address: u64,
    /// The object's flags, its first word; [`Type::of`] and others decode them.
    pub flags: u64,
    /// The word at which objects have their class.
    pub klass: u64,
}

/// All pages; made by [`Ruby::pages`].
pub struct Pages<'r, 'a, M> {
    ruby: &'r Ruby<'a, M>,
    next: u64,
    left: u64,
    bad: u32,
}

impl<M: Memory> Iterator for Pages<'_, '_, M> {
    type Item = Result<Page, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        self.next = at.wrapping_add(8);
        let page = self
            .ruby
            .memory
            .u64(at)
            .map_err(Error::from)
            .and_then(|page| self.ruby.described_page(page));
        self.bad = if page.is_err() { self.bad + 1 } else { 0 };
        if self.bad == MOST_BAD_PAGES {
            self.left = 0;
        }
        Some(page)
    }
}

/// The slots of one page that are not empty; made by [`Ruby::slots`].
pub struct Slots<'r, M> {
    memory: &'r M,
    slot_size: u64,
    next: u64,
    left: u64,
    piece: [u8; PIECE],
    piece_at: u64,
    piece_len: usize,
}

impl<M: Memory> Slots<'_, M> {
    /// Returns the first two words of the slot at `at`, flags and class.
    fn words(&mut self, at: u64) -> Result<(u64, u64), Fault> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
        loop {
            if let Some(ahead) = at.checked_sub(self.piece_at)
                && let Ok(ahead) = usize::try_from(ahead)
                && let Some(slot) = self.piece[..self.piece_len].get(ahead..)
                && slot.len() >= 16
            {
                return Ok((word(&slot[..8]), word(&slot[8..16])));
            }
            // Up to the end of the page; `left` no longer counts this slot.
            let rest = (self.left + 1).saturating_mul(self.slot_size);
            let len = usize::try_from(rest).unwrap_or(PIECE).clamp(16, PIECE);
            self.piece_len = 0;
            self.memory.read(at, &mut self.piece[..len])?;
            (self.piece_at, self.piece_len) = (at, len);
        }
    }
}

impl<M: Memory> Iterator for Slots<'_, M> {
    type Item = Result<Slot, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let address = self.next;
            self.next = address.wrapping_add(self.slot_size);
            self.left -= 1;
            match self.words(address) {
                Ok((flags, _)) if Type::of(flags) == Type::None => {}
                Ok((flags, klass)) => {
                    return Some(Ok(Slot {
                        address,
                        flags,
                        klass,
                    }));
                }
                Err(fault) => {
                    self.left = 0;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

impl<'a, M: Memory> Ruby<'a, M> {
    /// Returns the page that an object is in.
    pub fn page_of(&self, object: u64) -> Result<Page, Error> {
        let page = self.memory.u64(self.page_body(object))?;
        self.described_page(page)
    }

    /// Returns where the body of the page begins that an address is in.
    fn page_body(&self, address: u64) -> u64 {
        address & !(self.layout.heap.align - 1)
    }

    /// Returns where the body of a page begins, by its `struct heap_page`.
    fn described_body(&self, page: u64) -> Result<u64, Fault> {
        let heap = &self.layout.heap;
        let at = heap.body.unwrap_or(heap.start);
        Ok(self.page_body(self.memory.u64(page.wrapping_add(at))?))
    }

    /// Returns all pages, by address. A page that cannot be read (it may be gone by now) is an error, and the walk goes
    /// on.
    pub fn pages(&self) -> Result<Pages<'_, 'a, M>, Error> {
        self.pages_in(self.facts.objspace())
    }

    /// Returns the objects in a page, garbage not yet swept among them.
    pub fn slots(&self, page: Page) -> Slots<'_, M> {
        Slots {
            memory: self.memory,
            slot_size: page.slot_size,
            next: page.start,
            left: page.total_slots,
            piece: [0; PIECE],
            piece_at: 0,
            piece_len: 0,
        }
    }

    /// Returns whether a sweep has yet to come by this page. Until then a slot in it without a mark ([`Self::is_marked`]) is
    /// garbage, some of whose references may lead to what has been freed: `is_garbage_object`, `is_swept_object` (`gc.c`; 3.4:
    /// `gc/default/default.c`).
    pub fn awaits_sweep(&self, page: &Page) -> Result<bool, Fault> {
        let flags = page.described_at.wrapping_add(self.layout.heap.flags);
        Ok(self.memory.u32(flags)? & 1 != 0)
    }

    /// Returns whether the last mark has reached the object in a slot of this page: `MARKED_IN_BITMAP`.
    pub fn is_marked(&self, page: &Page, slot: u64) -> Result<bool, Fault> {
        let number = (slot & (self.layout.heap.align - 1)) / SMALLEST_SLOT;
        let words = page.described_at.wrapping_add(self.layout.heap.mark_bits);
        let word = self.memory.u64(words.wrapping_add(number / 64 * 8))?;
        Ok(word >> (number % 64) & 1 != 0)
    }

    /// Finds the objspace, in the way that the module's documentation shows, and checks it by the list of pages found
    /// there.
    pub(super) fn find_objspace(&self) -> Result<u64, Error> {
        let heap = &self.layout.heap;
        let objspace = match &heap.pools {
            None => self
                .memory
                .u64(self.facts.vm().wrapping_add(heap.vm_objspace))?,
            Some(pools) => {
                let object = self.facts.object();
                let page = self.memory.u64(self.page_body(object))?;
                let slot_size = self.described_page(page)?.slot_size;
                // Each pool's slots are twice as large as those of the one before.
                let index = u64::from((slot_size / SMALLEST_SLOT).trailing_zeros());
                if slot_size != SMALLEST_SLOT << index || index >= pools.count {
                    return Err(Error::garbled("heap page", page));
                }
                self.memory
                    .u64(page.wrapping_add(pools.page_pool))?
                    .wrapping_sub(pools.at + index * pools.size)
            }
        };
        self.lists_object(objspace)?
            .then_some(objspace)
            .ok_or(Error::garbled("object heap", objspace))
    }

    /// Returns whether the page of class Object is in the list of pages, which is in order of address.
    fn lists_object(&self, objspace: u64) -> Result<bool, Error> {
        let own = self.page_body(self.facts.object());
        let pages = self.pages_in(objspace)?;
        let (mut low, mut high) = (0, pages.left);
        while low < high {
            let middle = low + (high - low) / 2;
            let page = self.memory.u64(pages.next.wrapping_add(middle * 8))?;
            match self.described_body(page)?.cmp(&own) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(true),
                Ordering::Greater => high = middle,
            }
        }
        Ok(false)
    }

    fn pages_in(&self, objspace: u64) -> Result<Pages<'_, 'a, M>, Error> {
        let sorted = self
            .memory
            .u64(objspace.wrapping_add(self.layout.heap.sorted))?;
        let (next, count) = match self.layout.heap.count {
            PageCount::Field(at) => (sorted, self.memory.u64(objspace.wrapping_add(at))?),
            PageCount::Array(header) => (sorted.wrapping_add(header), self.memory.u64(sorted)?),
        };
        if count > MOST_PAGES {
            return Err(Error::garbled("object heap", objspace));
        }
        Ok(Pages {
            ruby: self,
            next,
            left: count,
            bad: 0,
        })
    }

    /// Returns a page by its `struct heap_page`, if its slots lie within a body whose header points back. One that has no slots at
    /// present begins where its body does.
    fn described_page(&self, page: u64) -> Result<Page, Error> {
        let heap = &self.layout.heap;
        let start = self.memory.u64(page.wrapping_add(heap.start))?;
        let total_slots = u64::from(self.memory.u16(page.wrapping_add(heap.total_slots))?);
        let body = self.described_body(page)?;
        let (start, slot_size) = match heap.pools {
            Some(_) if heap.body.is_some() && start == 0 && total_slots == 0 => {
                (body, SMALLEST_SLOT)
            }
            Some(_) => (start, u64::from(self.memory.u16(page)?)),
            None => (start, SMALLEST_SLOT),
        };
        if slot_size < SMALLEST_SLOT
            || self.page_body(start) != body
            || (start - body) + slot_size * total_slots > heap.align
            || self.memory.u64(body)? != page
        {
            return Err(Error::garbled("heap page", page));
        }
        Ok(Page {
            start,
            slot_size,
            total_slots,
            described_at: page,
        })
    }
}
