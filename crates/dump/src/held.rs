//! Finds objects that are held by something other than an object: their reference count exceeds the number of references found.
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

/// References of all objects: their counts minus those found. Takes half as much memory as the objects.
pub struct Held {
    pages: HashMap<u64, Box<[Count; PLACES]>>,
    /// Limit of the number of pages.
    most: usize,
    /// Receives the counts of addresses beyond the limit; never read.
    beyond: Count,
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
const IS_OBJECT: u8 = 0x80;

/// Why an object lives although the found references do not explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are references that were not found.
    Unknown,
    /// The VM never frees it.
    Immortal,
}

impl Held {
    /// Makes an empty table for a process with so many bytes in memory.
    pub fn within(bytes: u64) -> Self {
        let pages = (bytes >> PAGE_BITS).saturating_add(MORE_PAGES);
        Held {
            pages: HashMap::default(),
            most: usize::try_from(pages).unwrap_or(usize::MAX),
            beyond: Count::default(),
            lost: 0,
        }
    }

    /// The number of objects and references at addresses beyond the limit of pages.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Notes an object and its reference count; `None` = it is immortal.
    pub fn object(&mut self, address: u64, count: Option<u64>) {
        let place = self.place(address);
        place.low = IS_OBJECT | (address & 0xf) as u8;
        place.left = match count {
            Some(count) => {
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                place.left.saturating_add(count).max(IMMORTAL + 1)
            }
            None => IMMORTAL,
        };
    }

    /// Notes a reference to an object.
    pub fn found(&mut self, target: u64) {
        let place = self.place(target);
        if place.left != IMMORTAL {
            place.left = place.left.saturating_sub(1).max(IMMORTAL + 1);
        }
    }

    fn place(&mut self, address: u64) -> &mut Count {
        let number = address >> PAGE_BITS;
        if self.pages.len() >= self.most && !self.pages.contains_key(&number) {
            self.lost += 1;
            self.beyond = Count::default();
            return &mut self.beyond;
        }
        let page = self.pages.entry(number);
        let page = page.or_insert_with(|| Box::new([Count::default(); PLACES]));
        &mut page[(address >> PLACE_BITS) as usize % PLACES]
    }

    /// Returns the address of each object that has references other than those found, and why it lives.
    pub fn rest(&self) -> impl Iterator<Item = (u64, Why)> + '_ {
        self.pages.iter().flat_map(|(page, places)| {
            let places = places.iter().enumerate();
            places.filter_map(move |(place, count)| {
                let at = page << PAGE_BITS | (place as u64) << PLACE_BITS;
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
        let mut held = Held::within(0);
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
        let mut held = Held::within(1 << PAGE_BITS);
        for page in 0..MORE_PAGES + 11 {
            held.found(page << PAGE_BITS);
        }
        assert_eq!((held.pages.len() as u64, held.lost()), (MORE_PAGES + 1, 10));
        held.object(1 << 40, Some(7));
        assert_eq!(held.rest().count(), 0);
    }
}
