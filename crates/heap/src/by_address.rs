//! Finds objects by their addresses: the number of the one that begins there. Used by `build` and `build::targets`.
//!
//! Each 64 KiB of address space, which is one heap page in recent Rubies, has the range of its objects. Where many lie there, a bit for each
//! eight bytes says where one begins, and its number is the number of bits before: one search over all objects would miss the cache
//! at nearly every step, and one over those of the page takes ten steps.

use foldhash::HashMap;

use crate::rising::{LOW_BITS, Rising};

const PAGE_BITS: u32 = LOW_BITS;
const PAGE: u64 = 1 << PAGE_BITS;
/// Words of 64 bits that have one bit for each eight bytes of a page.
const WORDS: usize = (PAGE / 8 / 64) as usize;
/// From so many objects of one page on bits are kept, 1.3 KiB a page: at most 20 bytes an object.
const MANY: u32 = 64;

/// The objects of one snapshot by the 64 KiB of addresses in which they begin. The number of an object is its place among the addresses that
/// [`Pages::of`] was given.
pub struct Pages<'a> {
    addresses: &'a Rising,
    pages: HashMap<u64, Page>,
    bits: Vec<Bits>,
}

/// The objects of 64 KiB.
#[derive(Clone, Copy)]
struct Page {
    first: u32,
    end: u32,
    /// The number of its bits plus one; 0 = it has none.
    bits: u32,
}

/// Where objects begin in 64 KiB of addresses, for pages with many of them.
struct Bits {
    places: [u64; WORDS],
    /// Number of objects of the page that begin before those of each word of `places`.
    before: [u16; WORDS],
}

impl<'a> Pages<'a> {
    /// Makes the pages of the objects at these addresses, each of which is there once.
    pub fn of(addresses: &'a Rising) -> Self {
        let mut found = Pages {
            addresses,
            pages: HashMap::default(),
            bits: Vec::new(),
        };
        for (number, first, objects) in addresses.pages() {
            let end = first + objects.len() as u32;
            let mut page = Page {
                first,
                end,
                bits: 0,
            };
            if end - first >= MANY
                && let Some(bits) = Bits::of(objects)
            {
                found.bits.push(bits);
                page.bits = found.bits.len() as u32;
            }
            found.pages.insert(number, page);
        }
        found
    }

    /// Returns a finder for many addresses, one after the other.
    pub fn finder(&self) -> Finder<'_> {
        Finder {
            pages: self,
            last: [(u64::MAX, NOTHING); LAST],
        }
    }

    /// The number of the object at an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u32> {
        self.find_in(*self.pages.get(&(address >> PAGE_BITS))?, address)
    }

    #[inline]
    fn find_in(&self, page: Page, address: u64) -> Option<u32> {
        if let Some(bits) = page.bits.checked_sub(1) {
            let number = self.bits[bits as usize].number(address)?;
            return Some(page.first + number);
        }
        let objects = self.addresses.low(page.first..page.end);
        let found = objects.binary_search(&(address as u16)).ok()?;
        Some(page.first + found as u32)
    }
}

/// A page without an object.
const NOTHING: Page = Page {
    first: 0,
    end: 0,
    bits: 0,
};
/// Pages that a finder remembers.
const LAST: usize = 64;

/// Finds objects whose pages are often those of the ones before.
pub struct Finder<'a> {
    pages: &'a Pages<'a>,
    /// Number and page, by the low bits of the number. Of no address the number is `u64::MAX`.
    last: [(u64, Page); LAST],
}

impl Finder<'_> {
    /// Does what [`Pages::find`] does, and keeps the page for the next address.
    #[inline]
    pub fn find(&mut self, address: u64) -> Option<u32> {
        let number = address >> PAGE_BITS;
        let place = &mut self.last[number as usize % LAST];
        if place.0 != number {
            let page = self.pages.pages.get(&number);
            *place = (number, page.copied().unwrap_or(NOTHING));
        }
        self.pages.find_in(place.1, address)
    }
}

impl Bits {
    /// Returns the bits of a page's objects; `None` if the address of one is no multiple of eight.
    fn of(objects: &[u16]) -> Option<Self> {
        let mut bits = Bits {
            places: [0; WORDS],
            before: [0; WORDS],
        };
        for address in objects {
            if !address.is_multiple_of(8) {
                return None;
            }
            let place = usize::from(*address / 8);
            bits.places[place / 64] |= 1 << (place % 64);
        }
        let mut sum = 0;
        for (before, word) in bits.before.iter_mut().zip(&bits.places) {
            *before = sum;
            sum += word.count_ones() as u16;
        }
        Some(bits)
    }

    #[inline]
    fn number(&self, address: u64) -> Option<u32> {
        let place = (address % PAGE / 8) as usize;
        let (word, bit) = (self.places[place / 64], 1u64 << (place % 64));
        if word & bit == 0 || !address.is_multiple_of(8) {
            return None;
        }
        let before = u32::from(self.before[place / 64]);
        Some(before + (word & (bit - 1)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_and_nothing_else() {
        // A full page, one of few objects, one whose objects lie anywhere, and one at the end of all addresses.
        let mut addresses: Vec<u64> = (0..1638).map(|slot| 0x7f00_0000_0000 + slot * 40).collect();
        addresses.extend([0x7f00_0001_0008, 0x7f00_0001_fff8]);
        addresses.extend((0..100).map(|number| 0x7f00_0002_0001 + number * 9));
        addresses.extend((0..8192).map(|place| !0xffff + place * 8));
        let rising = addresses.iter().copied().collect();
        let pages = Pages::of(&rising);
        assert_eq!(pages.bits.len(), 2);
        let mut finder = pages.finder();
        for (number, address) in addresses.iter().enumerate() {
            assert_eq!(pages.find(*address), Some(number as u32));
            assert_eq!(finder.find(*address), Some(number as u32));
            for beside in [address.wrapping_sub(1), address.wrapping_add(1)] {
                assert!(addresses.binary_search(&beside).is_err());
                assert_eq!(pages.find(beside), None);
                assert_eq!(finder.find(beside), None);
            }
        }
        assert_eq!(pages.find(0x7f00_0000_0008), None);
        assert_eq!(pages.find(0x1000), None);
    }
}
