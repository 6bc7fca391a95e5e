//! The number of a site for every slot of the VM's heap.
//!
//! `wire::slots` tells how an object's address leads to its number.
//!
//! A number is overwritten at each birth and never cleared: for a slot without a living object it
//! means nothing, and only living ones are ever asked.

use crate::store::List;
use crate::sys;
use wire::slots::ROOTS;
use wire::{HeapShape, SlotPath};

/// Number tables are cut from pieces this long. Pages have 1 MiB at most (`HeapShape::checked`), so
/// any table fits.
const CHUNK: u64 = 1 << 20;

/// See the module's text.
pub struct Slots {
    /// Tables of number tables, one for each GiB of addresses.
    roots: List<u64>,
    shape: HeapShape,
    chunk: u64,
    chunk_left: u64,
    chunks: List<u64>,
}

impl Slots {
    /// No page.
    pub const fn new() -> Self {
        Slots {
            roots: List::new(),
            shape: HeapShape::new(1 << 16, 1),
            chunk: 0,
            chunk_left: 0,
            chunks: List::new(),
        }
    }

    /// Makes ready for a heap of this shape.
    pub fn open(&mut self, shape: HeapShape) -> Option<()> {
        self.shape = shape.checked();
        self.roots.resize(ROOTS)
    }

    /// Where the table of roots is.
    pub fn address(&self) -> u64 {
        self.roots.address()
    }

    /// How it leads to a number.
    pub fn shape(&self) -> HeapShape {
        self.shape
    }

    /// The numbers of the table on this path.
    #[inline]
    fn table(&self, path: SlotPath) -> Option<*mut u32> {
        if path.root >= self.roots.len() {
            return None;
        }
        // SAFETY: checked against the length.
        let tables = unsafe { *self.roots.get(path.root) } as *const u64;
        if tables.is_null() {
            return None;
        }
        // SAFETY: a root has `tables_per_root` tables, and a path's is one of them.
        let numbers = unsafe { *tables.add(path.table as usize) } as *mut u32;
        (!numbers.is_null()).then_some(numbers)
    }

    /// The number at the slot of the object at `address`; 0 if there is none.
    #[inline]
    pub fn get(&self, address: u64) -> u32 {
        let path = self.shape.path(address);
        match self.table(path) {
            // SAFETY: a path's slot is less than the `numbers` of its table.
            Some(numbers) => unsafe { *numbers.add(path.slot as usize) },
            None => 0,
        }
    }

    /// Sets it. `None` if there is no memory for the table.
    #[inline(always)]
    pub fn set(&mut self, address: u64, id: u32) -> Option<()> {
        let path = self.shape.path(address);
        let numbers = match self.table(path) {
            Some(numbers) => numbers,
            None => self.add_table(path)?,
        };
        // SAFETY: as in `get`.
        unsafe { *numbers.add(path.slot as usize) = id };
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn add_table(&mut self, path: SlotPath) -> Option<*mut u32> {
        if path.root >= self.roots.len() {
            return None;
        }
        // SAFETY: checked against the length.
        let place = unsafe { self.roots.get(path.root) };
        // SAFETY: as above; nothing else refers to it.
        let mut tables = unsafe { *place } as *mut u64;
        if tables.is_null() {
            tables = sys::map(self.root_bytes())? as *mut u64;
            // SAFETY: as above.
            unsafe { *place = tables as u64 };
        }
        let bytes = (u64::from(self.shape.numbers(path.table)) * 4).next_multiple_of(8);
        if self.chunk_left < bytes {
            let chunk = sys::map(CHUNK)?;
            if self.chunks.push(chunk).is_none() {
                // SAFETY: just mapped, and nobody knows it.
                unsafe { sys::unmap(chunk, CHUNK) };
                return None;
            }
            (self.chunk, self.chunk_left) = (chunk, CHUNK);
        }
        let numbers = self.chunk;
        self.chunk += bytes;
        self.chunk_left -= bytes;
        // SAFETY: as in `table`.
        unsafe { *tables.add(path.table as usize) = numbers };
        Some(numbers as *mut u32)
    }

    fn root_bytes(&self) -> u64 {
        u64::from(self.shape.tables_per_root()) * 8
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
