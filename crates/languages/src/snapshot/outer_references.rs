//! Finds objects that are held by something other than an object: their reference count exceeds the number of references found.
//! Used by `perl::snapshot`, `php::snapshot::walk`, `python::snapshot` and others.
//!
//! Python's collector finds reachable objects in this way (`subtract_refs`, `Modules/gcmodule.c`; since 3.13 `Python/gc.c`), for the
//! objects in its lists; here it is done for all objects. The remaining references are those of C code: variables of libraries, values that
//! C functions are using, and objects whose class does not report them to the collector.

use foldhash::HashMap;

/// An object takes 16 bytes at least, so each unit of 16 bytes has one object at most.
const PLACE_BITS: u32 = 4;
const PAGE_BITS: u32 = 12;
const PLACES: usize = 1 << (PAGE_BITS - PLACE_BITS);
/// Additional pages: those of mapped files that are not in memory yet.
const MORE_PAGES: u64 = 1 << 14;
/// In `left`: the object is immortal, and its references are not counted.
const IMMORTAL: i32 = i32::MIN;

/// References of all objects: their counts minus those found. Takes an eighth of the memory of the objects, and what `wide` takes.
pub struct OuterReferences {
    /// A packed [`Count`] for each place.
    pages: HashMap<u64, Box<[u16; PLACES]>>,
    /// By number of the place, what does not fit into 11 bits: the references of classes, `None`, names that everybody uses.
    wide: HashMap<u64, i32>,
    /// Limit of the number of pages.
    most: usize,
    lost: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// Reference count minus the references found; negative if the object itself was not met yet.
    left: i32,
    /// The low bits of the address of the object, and whether there is one.
    low: u8,
}

/// Bit of [`Count::low`]: an object begins there. The bits below 0x10 are those of its address.
const IS_OBJECT: u8 = 0x10;
/// Bits of a packed count for [`Count::low`]; above them is `left`, signed.
const LOW_BITS: u32 = 5;
const LOW: u16 = (1 << LOW_BITS) - 1;
/// In the place of `left` in a packed count: [`IMMORTAL`], and that it stands in [`OuterReferences::wide`].
const PACKED_IMMORTAL: i32 = -(1 << (u16::BITS - LOW_BITS - 1));
const PACKED_WIDE: i32 = PACKED_IMMORTAL + 1;
/// The numbers of references that are packed.
const PACKED: std::ops::RangeInclusive<i32> = PACKED_WIDE + 1..=-(PACKED_IMMORTAL + 1);
/// Limit of those that are not, for each page: a process may say any number of each of its objects.
const MOST_WIDE: usize = 4;

impl Count {
    /// `wide` is what stands for its place in [`OuterReferences::wide`].
    fn unpack(packed: u16, wide: impl FnOnce() -> Option<i32>) -> Self {
        let left = match i32::from(packed.cast_signed() >> LOW_BITS) {
            PACKED_IMMORTAL => IMMORTAL,
            PACKED_WIDE => wide().unwrap_or(0),
            left => left,
        };
        Count {
            left,
            low: (packed & LOW) as u8,
        }
    }

    /// Packs it; `left` must be one of [`PACKED`] or stand for another.
    fn pack(low: u8, left: i32) -> u16 {
        (left as u16) << LOW_BITS | u16::from(low)
    }
}

/// Why an object lives although the found references do not explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are references that were not found.
    Unknown,
    /// The VM never frees it.
    Immortal,
}

impl OuterReferences {
    /// Makes an empty table for a process with so many bytes in memory.
    pub fn within(bytes: u64) -> Self {
        let pages = (bytes >> PAGE_BITS).saturating_add(MORE_PAGES);
        OuterReferences {
            pages: HashMap::default(),
            wide: HashMap::default(),
            most: usize::try_from(pages).unwrap_or(usize::MAX),
            lost: 0,
        }
    }

    /// The number of objects and references beyond the limits.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Notes an object and its reference count; `None` = it is immortal.
    pub fn object(&mut self, address: u64, count: Option<u64>) {
        self.change(address, |place| {
            place.low = IS_OBJECT | (address & 0xf) as u8;
            place.left = match count {
                Some(count) => {
                    let count = i32::try_from(count).unwrap_or(i32::MAX);
                    place.left.saturating_add(count).max(IMMORTAL + 1)
                }
                None => IMMORTAL,
            };
        });
    }

    /// Notes a reference to an object.
    pub fn found(&mut self, target: u64) {
        self.change(target, |place| {
            if place.left != IMMORTAL {
                place.left = place.left.saturating_sub(1).max(IMMORTAL + 1);
            }
        });
    }

    fn change(&mut self, address: u64, change: impl FnOnce(&mut Count)) {
        let number = address >> PAGE_BITS;
        if self.pages.len() >= self.most && !self.pages.contains_key(&number) {
            self.lost += 1;
            return;
        }
        let page = self.pages.entry(number);
        let page = page.or_insert_with(|| Box::new([0; PLACES]));
        let packed = &mut page[(address >> PLACE_BITS) as usize % PLACES];
        let place = address >> PLACE_BITS;
        let mut count = Count::unpack(*packed, || self.wide.get(&place).copied());
        change(&mut count);
        let left = match count.left {
            IMMORTAL => PACKED_IMMORTAL,
            left if PACKED.contains(&left) => left,
            left => {
                let full = self.wide.len() / MOST_WIDE >= self.most;
                if full && !self.wide.contains_key(&place) {
                    self.lost += 1;
                } else {
                    self.wide.insert(place, left);
                }
                PACKED_WIDE
            }
        };
        *packed = Count::pack(count.low, left);
    }

    /// Returns the address of each object that has references other than those found, and why it lives.
    pub fn rest(&self) -> impl Iterator<Item = (u64, Why)> + '_ {
        self.pages.iter().flat_map(move |(page, places)| {
            let places = places.iter().enumerate();
            places.filter_map(move |(place, packed)| {
                let at = page << PAGE_BITS | (place as u64) << PLACE_BITS;
                let wide = || self.wide.get(&(at >> PLACE_BITS)).copied();
                let count = Count::unpack(*packed, wide);
                let address = at | u64::from(count.low & 0xf);
                match count.left {
                    _ if count.low & IS_OBJECT == 0 => None,
                    IMMORTAL => Some((address, Why::Immortal)),
                    1.. => Some((address, Why::Unknown)),
                    _ => None,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_is_left() {
        let mut held = OuterReferences::within(0);
        // References found before and after the object itself was met.
        held.found(0x1010);
        held.object(0x1010, Some(3));
        held.found(0x1010);
        held.object(0x2028, Some(1));
        held.found(0x2028);
        held.object(0x3000, None);
        held.found(0x3000);
        // More references found than counted, and a reference to an address without an object.
        held.object(0x4008, Some(1));
        held.found(0x4008);
        held.found(0x4008);
        held.found(0x5000);
        let mut rest: Vec<_> = held.rest().collect();
        rest.sort_by_key(|(at, _)| *at);
        assert_eq!(rest, [(0x1010, Why::Unknown), (0x3000, Why::Immortal)]);
    }

    #[test]
    fn addresses_without_memory_take_none() {
        let mut held = OuterReferences::within(1 << PAGE_BITS);
        for page in 0..MORE_PAGES + 11 {
            held.found(page << PAGE_BITS);
        }
        assert_eq!((held.pages.len() as u64, held.lost()), (MORE_PAGES + 1, 10));
        held.object(1 << 40, Some(7));
        assert_eq!(held.rest().count(), 0);
    }

    /// Numbers of references on both sides of what is packed: as many found as there are, and one less.
    #[test]
    fn numbers_of_references_are_exact_whatever_they_are() {
        for count in [1_u64, 1021, 1022, 1023, 1024, 5000] {
            for met_first in [true, false] {
                let mut held = OuterReferences::within(1 << 20);
                let note = |held: &mut OuterReferences, address, found| {
                    if met_first {
                        held.object(address, Some(count));
                    }
                    (0..found).for_each(|_| held.found(address));
                    if !met_first {
                        held.object(address, Some(count));
                    }
                };
                note(&mut held, 0x1010, count);
                note(&mut held, 0x2028, count - 1);
                let rest: Vec<_> = held.rest().collect();
                assert_eq!(rest, [(0x2028, Why::Unknown)], "{count} {met_first}");
                assert_eq!(held.lost(), 0);
            }
        }
    }

    /// A process that says of each of its objects that it has many references.
    #[test]
    fn large_numbers_are_bounded() {
        let mut held = OuterReferences::within(0);
        let all = MORE_PAGES * MOST_WIDE as u64 + 1000;
        (0..all).for_each(|number| held.object(number * 16, Some(1 << 20)));
        assert!(held.wide.len() <= MORE_PAGES as usize * MOST_WIDE);
        assert_eq!(held.lost(), 1000);
    }
}
