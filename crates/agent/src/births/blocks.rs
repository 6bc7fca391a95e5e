//! What is noted of each living block: the number of its site and interval, and the bytes that were asked for. Used by
//! `living` and `languages::python::births::counting`.
//!
//! ```text
//!   63 62                 32 31      22 21                0
//!   ├─┼─────────────────────┼──────────┼───────────────────┤
//!    │  size                  epoch      site                 one for every 16 bytes of address space, at the block's first
//!    └─ lines of code that lies in this block are cached
//! ```
//!
//! Blocks of up to 8 bytes, of which two begin in the same 16, have their numbers in tables of their own, where an allocator has such.
//!
//! A block of 2 GiB and more has its size in a list. Code (a code object) is a block as any other: when it is freed, what was cached
//! under its address is dropped. So a line that is found under an address is that of the code which lies there now. Code from before has
//! no site, but the mark all the same.

use crate::births::slots::{BLOCK_GRAIN, Number, Slots};
use crate::memory::follow::ours;
use crate::memory::store::List;
use wire::slots::site_of;

/// Lines are cached under the block's address.
const OWNER: u32 = 1 << 31;
/// The size of blocks whose size is in the list.
const LISTED: u32 = OWNER - 1;
/// The tables are of so many bytes of address space (binary logarithm): with 8 bytes for 16, half as many each.
const PAGE_SHIFT: u32 = 16;

/// Bytes of a block of which two may begin in the same grain of [`BLOCK_GRAIN`] bytes.
const TINY: u64 = 8;

/// What is noted of a block of up to 8 bytes: its number.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
struct Tiny(u32);

impl Number for Tiny {
    const GRAIN: u32 = TINY as u32;
    const NONE: Self = Tiny(0);
}

/// What is noted of one block. It is one word, because a processor waits where a word is loaded that was stored in two pieces just before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Block(u64);

impl Number for Block {
    const GRAIN: u32 = BLOCK_GRAIN;
    const NONE: Self = Block(0);
}

impl Block {
    #[inline(always)]
    fn new(number: u32, size: u32) -> Self {
        Block(u64::from(size) << 32 | u64::from(number))
    }

    /// See [`wire::slots`]; 0 = it was not seen when it was taken.
    #[inline(always)]
    fn number(self) -> u32 {
        self.0 as u32
    }

    /// [`OWNER`], and the size or [`LISTED`].
    #[inline(always)]
    fn size(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether lines are cached under its address.
    #[inline]
    pub fn is_owner(self) -> bool {
        self.size() & OWNER != 0
    }

    /// Whether it was seen when it was taken.
    fn is_counted(self) -> bool {
        site_of(self.number()) != 0
    }

    /// Whether the word is all there is to know: no lines are cached, and the size is in it.
    #[inline(always)]
    fn is_whole(self) -> bool {
        const { assert!(OWNER > LISTED) };
        self.size() < LISTED
    }
}

/// A block that was known, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub block: Block,
    size: u64,
}

/// Where a block is noted.
#[derive(Clone, Copy)]
pub struct Place {
    at: u64,
    block: *mut Block,
}

/// Pages of 64 KiB whose tables are remembered; a power of two. Two whose numbers are equal modulo this share a place.
const NEAR: usize = 512;

/// Bytes of addresses for each byte of a table.
const SPREAD: u64 = BLOCK_GRAIN as u64 / size_of::<Block>() as u64;

/// A page, and what leads from an address in it to what is noted of it: `table + distance(at)`.
#[derive(Clone, Copy)]
struct Near {
    page: u64,
    table: u64,
}

impl Near {
    const NOTHING: Near = Near {
        page: u64::MAX,
        table: 0,
    };

    /// The page of an address, with the bits that no address of a block that begins at a multiple of `ALIGN` has.
    #[inline(always)]
    fn page<const ALIGN: u64>(at: u64) -> u64 {
        const OF_PAGE: u64 = (1 << PAGE_SHIFT) - 1;
        at & !(OF_PAGE - (ALIGN - 1))
    }

    /// What is to be added to `table` for the block at `at`.
    #[inline(always)]
    fn distance<const ALIGN: u64>(at: u64) -> u64 {
        const GRAIN: u64 = BLOCK_GRAIN as u64;
        match ALIGN < GRAIN {
            true => (at & !(GRAIN - 1)) / SPREAD,
            // `at` is such a multiple already.
            false => at / SPREAD,
        }
    }

    #[inline(always)]
    fn place(at: u64) -> usize {
        (at >> PAGE_SHIFT) as usize % NEAR
    }
}

/// The living blocks of a process, each of which begins at a multiple of so many bytes (at least 8).
pub struct Blocks<const ALIGN: u64 = 16> {
    table: Slots<Block>,
    /// Tables that were used lately, at the places of their pages: two loads in the place of five.
    near: [Near; NEAR],
    /// Blocks of 2 GiB and more: address and size.
    listed: List<(u64, u64)>,
    /// Blocks of up to 8 bytes, where blocks begin at multiples of these.
    tiny: Slots<Tiny>,
}

impl<const ALIGN: u64> Blocks<ALIGN> {
    pub const fn new() -> Self {
        Blocks {
            table: Slots::new(),
            near: [Near::NOTHING; NEAR],
            listed: List::new(),
            tiny: Slots::new(),
        }
    }

    /// Makes room; `None` if there is no memory.
    pub fn open(&mut self) -> Option<()> {
        self.table.open(PAGE_SHIFT, 1)?;
        match Self::HAS_TINY {
            true => self.tiny.open(PAGE_SHIFT, 1),
            false => Some(()),
        }
    }

    /// Whether the allocator has blocks of which two begin in the same grain.
    const HAS_TINY: bool = ALIGN < BLOCK_GRAIN as u64;

    /// Whether a block of this size is one of these.
    #[inline(always)]
    pub const fn is_tiny(size: u64) -> bool {
        Self::HAS_TINY && size <= TINY
    }

    /// Whether there can be a block at this address.
    #[inline(always)]
    pub fn is_place(at: u64) -> bool {
        at.is_multiple_of(ALIGN)
    }

    /// Makes room for what is noted of the block at `at`. `None` if there is no memory for that, or can be no block.
    #[inline(always)]
    pub fn place(&mut self, at: u64) -> Option<Place> {
        if !Self::is_place(at) {
            return None;
        }
        let block = match self.near(at) {
            Some(block) => block,
            None => {
                self.table.room(at)?;
                self.come_near(at)?
            }
        };
        Some(Place { at, block })
    }

    /// Where the block at `at` is noted, if there can be one and its table was used lately. It lies there until the tables are freed, because
    /// all blocks have one size there.
    #[inline(always)]
    fn near(&self, at: u64) -> Option<*mut Block> {
        let near = &self.near[Near::place(at)];
        (near.page == Near::page::<ALIGN>(at))
            .then(|| ours(near.table.wrapping_add(Near::distance::<ALIGN>(at))))
    }

    /// The same where it was not, if it has a table; there can be one at `at`.
    #[inline(never)]
    fn come_near(&mut self, at: u64) -> Option<*mut Block> {
        let block = self.table.find(at)?;
        self.near[Near::place(at)] = Near {
            page: Near::page::<ALIGN>(at),
            table: (block.addr() as u64).wrapping_sub(Near::distance::<ALIGN>(at)),
        };
        Some(block)
    }

    /// Where the block at `at` is noted, if there can be one and its page has a table.
    #[inline(always)]
    fn noted(&mut self, at: u64) -> Option<*mut Block> {
        if !Self::is_place(at) {
            return None;
        }
        match self.near(at) {
            Some(noted) => Some(noted),
            None => self.come_near(at),
        }
    }

    /// Notes that the block of this place was taken, and returns what was known under its address: nothing, unless its death was not seen.
    /// The place was made since the tables were opened.
    #[inline(always)]
    pub fn born(&mut self, place: Place, number: u32, size: u64) -> Block {
        let small = u32::try_from(size).map_or(LISTED, |size| size.min(LISTED));
        let block = Block::new(number, small);
        // SAFETY: it leads into a table of its page, which lies there until the tables are freed, which the caller excludes; `self` is borrowed
        // mutably.
        let before = unsafe { place.block.replace(block) };
        if before.size() & !OWNER == LISTED {
            self.unlist(place.at);
        }
        if small == LISTED {
            // Without memory for the list it counts with the least size of such blocks.
            let _ = self.listed.push((place.at, size));
        }
        before
    }

    /// Notes that a block [of up to 8 bytes](Self::is_tiny) was taken. `None` if there is no memory for that.
    pub fn tiny_born(&mut self, at: u64, number: u32) -> Option<()> {
        self.tiny.set(at, Tiny(number))
    }

    /// Notes that a block is freed, and returns what was known of it.
    #[inline(always)]
    pub fn dead(&mut self, at: u64) -> Option<Known> {
        let known = self.known_dead(at);
        if Self::HAS_TINY && known.is_none() {
            return self.tiny_dead(at);
        }
        known
    }

    #[inline(never)]
    fn tiny_dead(&mut self, at: u64) -> Option<Known> {
        let Tiny(number) = self.tiny.clear(at);
        let block = Block::new(number, TINY as u32);
        (number != 0).then_some(Known { block, size: TINY })
    }

    #[inline(always)]
    fn known_dead(&mut self, at: u64) -> Option<Known> {
        let noted = self.noted(at)?;
        // SAFETY: it leads into a table of this page, which lies there until the tables are freed; `self` is borrowed mutably.
        let block = unsafe { noted.replace(Block::NONE) };
        if block == Block::NONE {
            return None;
        }
        let size = match block.size() & !OWNER {
            LISTED => self.unlist(at),
            small => small.into(),
        };
        Some(Known { block, size })
    }

    /// Where a block of `size` bytes at `at` is noted by [`fill`](Self::fill): if its table was used lately, nothing is known under its address,
    /// and its word is all there will be to know.
    #[inline(always)]
    pub fn empty_place(&self, at: u64, size: u64) -> Option<Place> {
        if size >= LISTED.into() || Self::is_tiny(size) {
            return None;
        }
        let block = self.near(at)?;
        // SAFETY: it leads into a table of this page, which lies there until the tables are freed; `self` is borrowed.
        (unsafe { *block } == Block::NONE).then_some(Place { at, block })
    }

    /// Notes a block of `size` bytes that was taken, at a place that [`empty_place`](Self::empty_place) has just found for it.
    #[inline(always)]
    pub fn fill(&mut self, place: Place, number: u32, size: u64) {
        // SAFETY: it leads into a table of its page, which lies there until the tables are freed, which the caller excludes; `self` is borrowed
        // mutably.
        unsafe { place.block.write(Block::new(number, size as u32)) };
    }

    /// The same as [`dead`](Self::dead), where the block's table was used lately and its word is all there is to know. Otherwise `None`, and
    /// nothing is changed.
    #[inline(always)]
    pub fn take(&mut self, at: u64) -> Option<Option<Known>> {
        let noted = self.near(at)?;
        // SAFETY: it leads into a table of this page, which lies there until the tables are freed; `self` is borrowed mutably.
        let block = unsafe { *noted };
        if block == Block::NONE {
            // It may be one of up to 8 bytes.
            return (!Self::HAS_TINY).then_some(None);
        }
        if !block.is_whole() {
            return None;
        }
        // SAFETY: as above.
        unsafe { noted.write(Block::NONE) };
        let size = block.size().into();
        Some(Some(Known { block, size }))
    }

    /// Notes again a block that was to be freed and was not.
    pub fn restore(&mut self, at: u64, known: Known) -> Option<()> {
        let place = self.place(at)?;
        self.born(place, known.block.number(), known.size);
        if known.block.is_owner() {
            self.own(at)?;
        }
        Some(())
    }

    /// Notes a block that was moved to `at`, or has another size there, under the number that it had; returns what was known under that
    /// address. `None` if it had no number, or would need a new table.
    pub fn keep(&mut self, at: u64, size: u64, known: Known) -> Option<Block> {
        if !known.block.is_counted() {
            return None;
        }
        let block = self.noted(at)?;
        Some(self.born(Place { at, block }, known.block.number(), size))
    }

    /// Notes that lines are cached under this address. `None`: its death would not be seen.
    pub fn own(&mut self, at: u64) -> Option<()> {
        if !Self::is_place(at) {
            return None;
        }
        let block = self.table.get(at);
        if block.is_owner() {
            return Some(());
        }
        let owner = Block::new(block.number(), block.size() | OWNER);
        self.table.set(at, owner)
    }

    /// Calls `each` with the number and the size of every block that was seen when it was taken.
    pub fn each(&self, mut each: impl FnMut(u32, u64)) {
        self.table.each(|at, block| {
            if block.is_counted() {
                each(block.number(), self.size_of(at, block));
            }
        });
        self.tiny.each(|_, Tiny(number)| {
            if site_of(number) != 0 {
                each(number, TINY);
            }
        });
    }

    /// Calls `each` with every address at which a block may begin under whose address lines are cached.
    pub fn each_owner(&self, mut each: impl FnMut(u64)) {
        self.table.each(|at, block| {
            if block.is_owner() {
                let places = (at..at + u64::from(BLOCK_GRAIN)).step_by(ALIGN as usize);
                places.for_each(&mut each);
            }
        });
    }

    fn size_of(&self, at: u64, block: Block) -> u64 {
        match block.size() & !OWNER {
            LISTED => {
                let mut all = self.listed.all().iter();
                all.find(|(listed, _)| *listed == at)
                    .map_or(LISTED.into(), |(_, size)| *size)
            }
            small => small.into(),
        }
    }

    /// Takes a block out of the list, and returns its size.
    #[cold]
    fn unlist(&mut self, at: u64) -> u64 {
        let all = self.listed.all_mut();
        let Some(found) = all.iter().position(|(listed, _)| *listed == at) else {
            return LISTED.into();
        };
        let (last, size) = (all.len() - 1, all[found].1);
        all.swap(found, last);
        self.listed.clear_to(last as u32);
        size
    }

    /// Notes that all blocks are dead. `None` as of [`Slots::clear_all`].
    pub fn all_dead(&mut self) -> Option<()> {
        self.near = [Near::NOTHING; NEAR];
        self.listed.clear_to(0);
        let tables = self.table.clear_all();
        if Self::HAS_TINY {
            self.tiny.clear_all()?;
        }
        tables
    }

    /// Unmaps all of it.
    pub fn free(&mut self) {
        self.near = [Near::NOTHING; NEAR];
        self.table.free();
        self.listed.free();
        self.tiny.free();
    }

    /// Bytes mapped, of which only touched pages take memory.
    pub fn mapped(&self) -> u64 {
        self.table.mapped() + self.listed.mapped() + self.tiny.mapped()
    }
}

#[cfg(test)]
mod tests;
