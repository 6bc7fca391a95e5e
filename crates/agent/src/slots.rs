//! The number of a site for every slot of the VM's heap.
//!
//! `wire::SlotPath` tells how an object's address leads to its number.
//!
//! A number is overwritten at each birth and never cleared: for a slot without a living object it
//! means nothing, and only living ones are ever asked.

use crate::store::List;
use crate::sys;
use wire::SlotPath;
use wire::ledger::{ROOTS, pages_per_root, slots_per_page};

/// Number tables are cut from pieces this long.
const CHUNK: u64 = 1 << 20;

/// See the module's text.
pub struct Slots {
    /// Tables of page pointers, one for each GiB of addresses.
    roots: List<u64>,
    page_shift: u32,
    chunk: u64,
    chunk_left: u64,
    chunks: List<u64>,
}

impl Slots {
    /// No page.
    pub const fn new() -> Self {
        Slots {
            roots: List::new(),
            page_shift: 16,
            chunk: 0,
            chunk_left: 0,
            chunks: List::new(),
        }
    }

    /// Makes ready for heap pages of 2 to the power of `page_shift` bytes.
    pub fn open(&mut self, page_shift: u32) -> Option<()> {
        self.page_shift = page_shift.clamp(12, 24);
        self.roots.resize(ROOTS)
    }

    /// Where the table of roots is.
    pub fn address(&self) -> u64 {
        self.roots.address()
    }

    /// A heap page has 2 to this power bytes.
    pub fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// The numbers of the page on this path.
    #[inline]
    fn page(&self, path: SlotPath) -> Option<*mut u32> {
        if path.root >= self.roots.len() {
            return None;
        }
        // SAFETY: checked against the length.
        let pages = unsafe { *self.roots.get(path.root) } as *const u64;
        if pages.is_null() {
            return None;
        }
        // SAFETY: a root's table has `pages_per_root` entries, and a path's page is less.
        let ids = unsafe { *pages.add(path.page as usize) } as *mut u32;
        (!ids.is_null()).then_some(ids)
    }

    /// The number at the slot of the object at `address`; 0 if there is none.
    #[inline]
    pub fn get(&self, address: u64) -> u32 {
        let path = SlotPath::of(address, self.page_shift);
        match self.page(path) {
            // SAFETY: a page has `slots_per_page` numbers, and a path's slot is less.
            Some(ids) => unsafe { *ids.add(path.slot as usize) },
            None => 0,
        }
    }

    /// Sets it. `None` if there is no memory for the page's numbers.
    #[inline]
    pub fn set(&mut self, address: u64, id: u32) -> Option<()> {
        let path = SlotPath::of(address, self.page_shift);
        let ids = match self.page(path) {
            Some(ids) => ids,
            None => self.add_page(path)?,
        };
        // SAFETY: as in `get`.
        unsafe { *ids.add(path.slot as usize) = id };
        Some(())
    }

    #[cold]
    fn add_page(&mut self, path: SlotPath) -> Option<*mut u32> {
        if path.root >= self.roots.len() {
            return None;
        }
        // SAFETY: checked against the length.
        let place = unsafe { self.roots.get(path.root) };
        // SAFETY: as above; nothing else refers to it.
        let mut pages = unsafe { *place } as *mut u64;
        if pages.is_null() {
            pages = sys::map(self.root_bytes())? as *mut u64;
            // SAFETY: as above.
            unsafe { *place = pages as u64 };
        }
        let bytes = (u64::from(slots_per_page(self.page_shift)) * 4).next_multiple_of(64);
        if self.chunk_left < bytes {
            let chunk = sys::map(CHUNK)?;
            self.chunks.push(chunk)?;
            (self.chunk, self.chunk_left) = (chunk, CHUNK);
        }
        let ids = self.chunk;
        self.chunk += bytes;
        self.chunk_left -= bytes;
        // SAFETY: as in `page`.
        unsafe { *pages.add(path.page as usize) = ids };
        Some(ids as *mut u32)
    }

    fn root_bytes(&self) -> u64 {
        u64::from(pages_per_root(self.page_shift)) * 8
    }

    /// Gives all memory back.
    pub fn free(&mut self) {
        for root in 0..self.roots.len() {
            // SAFETY: within the length.
            let pages = unsafe { *self.roots.get(root) };
            if pages != 0 {
                // SAFETY: the table is ours and its root is forgotten below.
                unsafe { sys::unmap(pages, self.root_bytes()) };
            }
        }
        for index in 0..self.chunks.len() {
            // SAFETY: within the length; the chunk is ours and forgotten below.
            unsafe { sys::unmap(*self.chunks.get(index), CHUNK) };
        }
        self.roots.free();
        self.chunks.free();
        *self = Self::new();
    }

    /// Bytes mapped, of which only touched pages take memory.
    pub fn mapped(&self) -> u64 {
        self.roots.mapped() + self.chunks.mapped() + u64::from(self.chunks.len()) * CHUNK
    }
}
