//! The number for every slot of the VM's heap: the site and the interval of its object's birth. Used by `blocks` and
//! `languages::ruby::births::agent`.
//!
//! `wire::slots` describes how an object's address leads to its number, and what a table's step is.
//!
//! In the tables of a Ruby a birth overwrites its slot's number, and no number is ever cleared. For a slot without a living object the
//! number means nothing, and only living objects are looked up. In those of a Python, whose allocator tells of each death, the number
//! of a block is cleared when the block is freed, so that the tables hold the living (`births::blocks`).

use crate::memory::bound;
use crate::memory::follow::ours;
use crate::memory::store::List;
use core::marker::PhantomData;
use wire::SlotPath;
use wire::slots::{GREATEST_STEP, ROOTS, Table, pages_per_root};

/// Bytes of the mappings that tables are cut from; a table of the largest page fits into one.
const CHUNK: u64 = 1 << 20;
const LARGEST_PAGE_SHIFT: u32 = 20;
/// Mappings that [`Slots::clear_all`] keeps: what a larger heap needed is given back.
const KEPT_CHUNKS: u32 = 8;
/// [`Number::GRAIN`] of the blocks of an allocator: what `malloc` and Python's own allocator align them to.
pub const BLOCK_GRAIN: u32 = 16;

/// What is noted of an object or a block.
pub trait Number: Copy {
    /// Bytes after which the next number may follow.
    const GRAIN: u32;
    /// Nothing is noted: all bytes are zero.
    const NONE: Self;
}

impl Number for u32 {
    const GRAIN: u32 = wire::slots::GRAIN;
    const NONE: Self = 0;
}

/// The tables of numbers for all heap pages in which objects were born since the agent began to watch; [`Slots::free`] unmaps them. A slot
/// whose object has died keeps its number, so callers must know that the object lives.
pub struct Slots<N = u32> {
    /// Tables of the pages' tables, one for each GiB of addresses.
    roots: List<u64>,
    page_shift: u32,
    /// The largest step of a table, for pages that may have slots of several sizes.
    greatest_step: u32,
    chunk: u64,
    chunk_left: u64,
    chunks: List<u64>,
    /// Root and page of all pages that have a table.
    pages: List<(u32, u32)>,
    /// Tables that are free again, by step. The first word of each is the address of the next one.
    unused: [u64; GREATEST_STEP as usize + 1],
    number: PhantomData<N>,
}

impl<N: Number> Slots<N> {
    /// Returns an empty set of tables; `open` must be called before a number is set.
    pub const fn new() -> Self {
        Slots {
            roots: List::new(),
            page_shift: 16,
            greatest_step: 0,
            chunk: 0,
            chunk_left: 0,
            chunks: List::new(),
            pages: List::new(),
            unused: [0; GREATEST_STEP as usize + 1],
            number: PhantomData,
        }
    }

    #[inline(always)]
    fn path(&self, address: u64) -> SlotPath {
        match N::GRAIN {
            BLOCK_GRAIN => SlotPath::by_grain::<BLOCK_GRAIN>(address, self.page_shift),
            8 => SlotPath::by_grain::<8>(address, self.page_shift),
            _ => SlotPath::of(address, self.page_shift),
        }
    }

    /// Prepares for heap pages of 2 to the power of `page_shift` bytes with `sizes` sizes of slots, each twice as large as the one before.
    pub fn open(&mut self, page_shift: u32, sizes: u32) -> Option<()> {
        self.page_shift = page_shift.clamp(12, LARGEST_PAGE_SHIFT);
        self.greatest_step = sizes.saturating_sub(1).min(GREATEST_STEP);
        self.roots.resize(ROOTS)
    }

    /// Address of the table of roots, which the command reads.
    pub fn address(&self) -> u64 {
        self.roots.address()
    }

    /// The power of 2 that is the size of a heap page in bytes.
    pub fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// Returns the table of the page on this path.
    #[inline(always)]
    fn table(&self, path: SlotPath) -> Table {
        if path.root >= self.roots.len() {
            return Table::NONE;
        }
        // SAFETY: `path.root` was compared with the length just now; the word is copied.
        let tables = ours::<u64>(unsafe { *self.roots.get(path.root) });
        if tables.is_null() {
            return Table::NONE;
        }
        // SAFETY: `tables` was mapped by `place` with a word for each page of a root, and `path.page` is less than their number.
        Table::from_word(unsafe { *tables.add(path.page as usize) })
    }

    /// Where the number at this slot lies; `None` if the page has no table, or one without a place for this grain.
    #[inline(always)]
    fn number_at(&self, path: SlotPath) -> Option<*mut N> {
        let table = self.table(path);
        let index = table.index(path.grain).filter(|_| table != Table::NONE)?;
        // SAFETY: `index` is computed from a grain of the page and the table's step, so it is less than `Table::numbers`, the numbers that
        // `take` has mapped.
        Some(unsafe { ours::<N>(table.address()).add(index as usize) })
    }

    /// Where the number at the slot of the object at `address` lies, as of [`room`](Self::room); `None` if there is no room for it.
    #[inline(always)]
    pub fn find(&self, address: u64) -> Option<*mut N> {
        self.number_at(self.path(address))
    }

    /// The number at the slot of the object at `address`; [`Number::NONE`] if there is none.
    #[inline]
    pub fn get(&self, address: u64) -> N {
        let number = self.number_at(self.path(address));
        // SAFETY: `number_at` leads to a number in memory that `take` has mapped.
        number.map_or(N::NONE, |number| unsafe { *number })
    }

    /// Sets the number at the slot of the object at `address`. `None` if there is no memory for the page's table.
    #[inline(always)]
    pub fn set(&mut self, address: u64, id: N) -> Option<()> {
        let number = self.room(address)?;
        // SAFETY: `room` leads to a number in memory that `take` has mapped; `self` is borrowed mutably.
        unsafe { *number = id };
        Some(())
    }

    /// Makes room for a number at the slot of the object at `address`, and returns where it lies. It lies there until a table with a finer
    /// step takes the place of this one, which none does where all slots have one size ([`open`](Self::open)), and until all are freed. `None`
    /// as of [`set`](Self::set).
    #[inline(always)]
    pub fn room(&mut self, address: u64) -> Option<*mut N> {
        let path = self.path(address);
        match self.number_at(path) {
            Some(number) => Some(number),
            None => self.room_in_new_table(path),
        }
    }

    /// Takes the number at the slot of the object at `address` away, and returns what it was.
    #[inline(always)]
    pub fn clear(&mut self, address: u64) -> N {
        let number = self.number_at(self.path(address));
        // SAFETY: `number_at` leads to a number in memory that `take` has mapped; `self` is borrowed mutably.
        number.map_or(N::NONE, |number| unsafe { number.replace(N::NONE) })
    }

    /// Makes room for a number where the page has no table, or one whose step is too large for this grain: makes a new table and copies the
    /// old one.
    #[cold]
    #[inline(never)]
    fn room_in_new_table(&mut self, path: SlotPath) -> Option<*mut N> {
        let old = self.table(path);
        let most = match old {
            Table::NONE => self.greatest_step,
            old => old.step(),
        };
        // Grain 0 is a multiple of every step.
        let step = path.grain.trailing_zeros().min(most);
        let place = self.place(path)?;
        let new = Table::new(self.take(step)?, step);
        if old == Table::NONE && self.pages.push((path.root, path.page)).is_none() {
            self.give_up(new);
            return None;
        }
        let numbers = ours::<N>(new.address());
        if old != Table::NONE {
            for index in 0..self.numbers(old) {
                // SAFETY: `index` is less than the old table's numbers; the new table has a place for each grain of the old one, because
                // its step is smaller.
                unsafe {
                    let number = *ours::<N>(old.address()).add(index as usize);
                    *numbers.add((index << (old.step() - step)) as usize) = number;
                }
            }
        }
        let index = new.index(path.grain)?;
        // SAFETY: `place` is the word for this page in its root, which is mapped.
        unsafe { *place = new.word() };
        if old != Table::NONE {
            self.give_up(old);
        }
        // SAFETY: `index` is less than `Table::numbers` of the new table, which `take` has mapped.
        Some(unsafe { numbers.add(index as usize) })
    }

    /// Returns the word that holds the table of the page on this path.
    fn place(&mut self, path: SlotPath) -> Option<*mut u64> {
        if path.root >= self.roots.len() {
            return None;
        }
        // SAFETY: the list was made longer than `path.root` above; `self` is borrowed mutably, so no other reference to the word is alive.
        let root = unsafe { &mut *self.roots.get(path.root) };
        if *root == 0 {
            *root = bound::map(self.root_bytes())?;
        }
        Some(ours::<u64>(*root).wrapping_add(path.page as usize))
    }

    /// Returns zeroed room for a table of this step.
    fn take(&mut self, step: u32) -> Option<u64> {
        let bytes = self.table_bytes(step);
        let unused = self.unused.get_mut(step as usize)?;
        if *unused != 0 {
            let table = *unused;
            // SAFETY: a free table is memory of ours that no page uses, has the size of this step, and begins with the address of the next
            // one.
            unsafe {
                *unused = *ours::<u64>(table);
                ours::<u8>(table).write_bytes(0, bytes as usize);
            }
            return Some(table);
        }
        if self.chunk_left < bytes {
            let chunk = bound::map(CHUNK)?;
            if self.chunks.push(chunk).is_none() {
                // SAFETY: the mapping was made just now, and no pointer to it was kept.
                unsafe { bound::unmap(chunk, CHUNK) };
                return None;
            }
            (self.chunk, self.chunk_left) = (chunk, CHUNK);
        }
        let table = self.chunk;
        self.chunk += bytes;
        self.chunk_left -= bytes;
        Some(table)
    }

    fn give_up(&mut self, table: Table) {
        if let Some(unused) = self.unused.get_mut(table.step() as usize) {
            // SAFETY: no page has this table any more, it is memory of ours, and every table is larger than a word.
            unsafe { *ours::<u64>(table.address()) = *unused };
            *unused = table.address();
        }
    }

    /// The tables that there are, each with the path of its page.
    fn tables(&self) -> impl Iterator<Item = (SlotPath, Table)> {
        self.pages.all().iter().map(|&(root, page)| {
            let path = SlotPath {
                root,
                page,
                grain: 0,
            };
            (path, self.table(path))
        })
    }

    /// Calls `each` with every number that there is room for, [`Number::NONE`] included, and with the address that it is of. It takes time for
    /// the pages that have tables alone.
    pub fn each(&self, mut each: impl FnMut(u64, N)) {
        for (path, table) in self.tables() {
            let start = path.start(self.page_shift);
            for index in 0..self.numbers(table) {
                let grain = index << table.step();
                // SAFETY: `index` is less than the table's numbers, which `take` has mapped.
                let number = unsafe { *ours::<N>(table.address()).add(index as usize) };
                each(start + u64::from(grain * N::GRAIN), number);
            }
        }
    }

    /// Takes all numbers away. The tables stay for those that follow, so that a heap which begins anew all the time does not map and unmap
    /// them each time, unless they are of a large heap. `None`: there was no memory to [`open`](Self::open) it again.
    pub fn clear_all(&mut self) -> Option<()> {
        if self.chunks.len() > KEPT_CHUNKS || self.roots.len() == 0 {
            let (page_shift, sizes) = (self.page_shift, self.greatest_step + 1);
            self.free();
            return self.open(page_shift, sizes);
        }
        for (_, table) in self.tables() {
            let numbers = self.numbers(table) as usize;
            // SAFETY: `take` has mapped that many numbers, whose bytes are zero where nothing is noted; `self` is borrowed mutably.
            unsafe { ours::<N>(table.address()).write_bytes(0, numbers) };
        }
        Some(())
    }

    fn numbers(&self, table: Table) -> u32 {
        Table::numbers_by(N::GRAIN, table.step(), self.page_shift)
    }

    fn table_bytes(&self, step: u32) -> u64 {
        let numbers = Table::numbers_by(N::GRAIN, step, self.page_shift);
        (u64::from(numbers) * size_of::<N>() as u64).next_multiple_of(8)
    }

    fn root_bytes(&self) -> u64 {
        u64::from(pages_per_root(self.page_shift)) * 8
    }

    /// Unmaps the tables of slots, with what they say of each object.
    pub fn free(&mut self) {
        for root in 0..self.roots.len() {
            // SAFETY: `root` is less than the length; the word is copied.
            let tables = unsafe { *self.roots.get(root) };
            if tables != 0 {
                // SAFETY: `place` has mapped that many bytes at this address, and the list that names it is freed below.
                unsafe { bound::unmap(tables, self.root_bytes()) };
            }
        }
        for index in 0..self.chunks.len() {
            // SAFETY: `index` is less than the length; `take` has mapped that many bytes at this address, and the list that names it is
            // freed below.
            unsafe { bound::unmap(*self.chunks.get(index), CHUNK) };
        }
        self.roots.free();
        self.chunks.free();
        self.pages.free();
        *self = Self::new();
    }

    /// Bytes mapped, of which only touched pages take memory.
    pub fn mapped(&self) -> u64 {
        let lists = self.roots.mapped() + self.chunks.mapped() + self.pages.mapped();
        lists + u64::from(self.chunks.len()) * CHUNK
    }
}

#[cfg(test)]
mod tests;
