//! Where the number of the heap slot at an address stands, starting from `Ledger::slot_roots`. Used by `ledger`, and by
//! the crates `agent` and `births`.
//!
//! ```text
//!   address   47            30 29         14 (or 16)        0
//!             ├──────────────┼─────────────┼────────────────┤
//!               roots[ ]       tables[ ]     grain = offset / 40
//!               u64 each       Table each    numbers[grain >> step], u32 each
//!
//!   number    31      22 21                        0
//!             ├─────────┼──────────────────────────┤
//!               epoch     site
//! ```
//!
//! The *epoch* is the part of the time of watching in which the object was born, so that one census tells how many of
//! the births of each part still live. The command makes a new one every now and then by writing one word
//! (`Ledger::epoch`); a birth costs one load more, and the guest is not stopped.
//!
//! Ruby's heap pages are aligned to their size, so a page is found by the upper bits of any of its
//! objects. Every slot size is a multiple of 40 bytes, and slots lie a whole number of slot sizes apart,
//! so the grain differs for any two objects of a page.
//!
//! Since Ruby 3.2 slots have 40 · 2ⁿ bytes, and a page's first slot has a grain that is a multiple of 2ⁿ
//! (`gc.c` `heap_page_allocate`: "Find a num in page that is evenly divisible by `stride`", 3.2.3, 3.3.8;
//! 3.4.5 `gc/default/default.c` `heap_add_page`). So a page of 80-byte slots uses even grains only, one of 160-byte
//! slots every fourth, and a table with a number for each would be half or three quarters holes. A table
//! has one for every 2ⁿth instead, its *step*: each slot costs four bytes whatever its size. A page that
//! is given back and comes again with smaller slots shows by the first grain that its table has no number
//! for; it then gets a table of a smaller step with all that the old one held. Nothing depends on how
//! pages are laid out but the memory that is saved.
//!
//! [`Ledger::slot_roots`]: crate::Ledger::slot_roots

/// Bits of a number that tell the site.
const SITE_BITS: u32 = 22;
/// Sites that a number can tell apart.
pub const MOST_SITES: u64 = 1 << SITE_BITS;
/// Epochs that a number can tell apart.
pub const EPOCHS: u32 = 1 << (32 - SITE_BITS);

/// Returns the site of a slot's number; 0 is "born before we came".
#[inline]
pub const fn site_of(number: u32) -> u32 {
    number & ((1 << SITE_BITS) - 1)
}

/// Returns the epoch of a slot's number: the part of the time of watching in which the object was born.
#[inline]
pub const fn epoch_of(number: u32) -> u32 {
    number >> SITE_BITS
}

/// Returns the bits of an epoch as they stand in a slot's number.
#[inline]
pub const fn epoch_bits(epoch: u32) -> u32 {
    epoch << SITE_BITS
}

/// Returns `number` with another site, of the same epoch.
#[inline]
pub const fn with_site(number: u32, site: u32) -> u32 {
    number & !((1 << SITE_BITS) - 1) | site
}

/// The indexes by which the number of a slot is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPath {
    /// Index into the table of roots; a value of [`ROOTS`] or more means that no root covers the address.
    pub root: u32,
    /// Index into the root's tables, of which there is one for each heap page.
    pub page: u32,
    /// Offset of the slot within its page, in units of 40 bytes: the argument of [`Table::index`].
    pub grain: u32,
}

/// Binary logarithm of the bytes of address space that one root covers.
const ROOT_SHIFT: u32 = 30;
/// Number of roots that cover all addresses a process can map.
pub const ROOTS: u32 = 1 << (47 - ROOT_SHIFT);
/// Every slot size of a Ruby heap is a multiple of this.
pub const GRAIN: u32 = 40;

impl SlotPath {
    /// Returns the path of `address` on a heap with pages of 2 to the power of `page_shift` bytes.
    ///
    /// This runs at each birth, so both sizes that there are (up to Ruby 3.1, and since 3.2) are compiled as constants.
    #[inline]
    pub const fn of(address: u64, page_shift: u32) -> Self {
        Self::by_grain::<GRAIN>(address, page_shift)
    }

    /// The same in a table that has a number for every `G` bytes.
    #[inline]
    pub const fn by_grain<const G: u32>(address: u64, page_shift: u32) -> Self {
        match page_shift {
            14 => Self::by::<G>(address, 14),
            16 => Self::by::<G>(address, 16),
            _ => Self::by::<G>(address, page_shift),
        }
    }

    #[inline(always)]
    const fn by<const G: u32>(address: u64, page_shift: u32) -> Self {
        SlotPath {
            root: (address >> ROOT_SHIFT) as u32,
            page: (address >> page_shift) as u32 & (pages_per_root(page_shift) - 1),
            grain: (address as u32 & ((1 << page_shift) - 1)) / G,
        }
    }

    /// Returns the address at which the path's page begins.
    #[inline]
    pub const fn start(self, page_shift: u32) -> u64 {
        (self.root as u64) << ROOT_SHIFT | (self.page as u64) << page_shift
    }
}

/// Returns the number of heap pages in the address space of one root.
#[inline]
pub const fn pages_per_root(page_shift: u32) -> u32 {
    1 << (ROOT_SHIFT - page_shift)
}

/// The numbers of one heap page in one word: their address, a multiple of 8, and in the three bits below it their step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Table(u64);

/// The greatest step that a [`Table`] can have.
pub const GREATEST_STEP: u32 = 7;

impl Table {
    /// The table of a page where no birth was recorded.
    pub const NONE: Table = Table(0);

    /// A table of numbers at `address`, with this step.
    pub const fn new(address: u64, step: u32) -> Self {
        Table(address & !7 | (step & GREATEST_STEP) as u64)
    }

    /// Makes a table of the word in a root's array.
    pub const fn from_word(word: u64) -> Self {
        Table(word)
    }

    /// Returns the word for a root's array.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the address of the numbers; 0 for [`Table::NONE`].
    #[inline]
    pub const fn address(self) -> u64 {
        self.0 & !7
    }

    /// Returns the step: see the module's text.
    #[inline]
    pub const fn step(self) -> u32 {
        self.0 as u32 & GREATEST_STEP
    }

    /// Returns the index of the number of a grain; `None` if the table has no number for it.
    #[inline]
    pub const fn index(self, grain: u32) -> Option<u32> {
        let index = grain >> self.step();
        if index << self.step() == grain {
            Some(index)
        } else {
            None
        }
    }

    /// Returns how many numbers a table of this step has.
    pub const fn numbers(step: u32, page_shift: u32) -> u32 {
        Self::numbers_by(GRAIN, step, page_shift)
    }

    /// Returns how many numbers a table of this step has that has one for every `grain` bytes.
    pub const fn numbers_by(grain: u32, step: u32, page_shift: u32) -> u32 {
        ((((1u32 << page_shift) - 1) / grain) >> step) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::HashSet;

    #[test]
    fn a_number_is_a_site_and_an_epoch() {
        for site in [0, 1, MOST_SITES as u32 - 1] {
            for epoch in [0, 1, EPOCHS - 1] {
                let number = epoch_bits(epoch) | site;
                assert_eq!((site_of(number), epoch_of(number)), (site, epoch));
                let moved = with_site(number, 7);
                assert_eq!((site_of(moved), epoch_of(moved)), (7, epoch));
            }
        }
    }

    #[test]
    fn any_two_slots_of_a_page_have_two_numbers() {
        for page_shift in [14, 15, 16] {
            let page = 0x7f12_3fff_0000u64;
            let mut seen = HashSet::new();
            for at in (0..(1u64 << page_shift)).step_by(40) {
                let path = SlotPath::of(page + at, page_shift);
                assert!(path.root < ROOTS && path.page < pages_per_root(page_shift));
                let index = Table::new(4096, 0).index(path.grain).expect("a number");
                assert!(index < Table::numbers(0, page_shift));
                assert!(seen.insert(index));
            }
        }
    }

    /// Slots laid out as `heap_page_allocate` does, from anywhere in memory.
    #[test]
    fn a_page_takes_four_bytes_a_slot_whatever_their_size() {
        for step in 0..5 {
            let size = 40 << step;
            for page in (0x7f00_0000_0000u64..0x7f00_0005_0000).step_by(0x1_0000) {
                let mut start = (page + 8).next_multiple_of(40);
                if (start - page) / 40 == 1 {
                    start += size - 40;
                }
                let slots = (page + 0x1_0000 - start) / size;
                let table = Table::new(0x1000, step);
                let mut seen = HashSet::new();
                for slot in 0..slots {
                    let path = SlotPath::of(start + slot * size, 16);
                    let index = table.index(path.grain).expect("a number");
                    assert!(index < Table::numbers(step, 16));
                    assert!(seen.insert(index));
                }
                assert!(u64::from(Table::numbers(step, 16)) <= slots + 2, "{size}");
            }
        }
    }

    #[test]
    fn a_table_knows_where_it_is_and_what_it_holds() {
        let table = Table::new(0x7f12_3456_7898, 3);
        assert_eq!((table.address(), table.step()), (0x7f12_3456_7898, 3));
        assert_eq!(table.index(24), Some(3));
        assert_eq!(table.index(25), None);
        assert_eq!(Table::NONE.address(), 0);
    }
}
