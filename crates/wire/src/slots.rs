//! Where the number of the heap slot at an address stands, starting from `Ledger::slot_roots`.
//!
//! ```text
//!   address   47            30 29         14 (or 16)        0
//!             ├──────────────┼─────────────┼────────────────┤
//!               roots[ ]       tables[page · planes + plane]
//!               u64 each       u64 each         ▼
//!                                             numbers[slot]
//!                                             u32 each
//! ```
//!
//! Ruby's heap pages are aligned to their size, so a page is found by the upper bits of any of its
//! objects. Every slot size is a multiple of 40 bytes (`GRAIN`), and slots lie a whole number of
//! slot sizes apart, so `grain = offset / 40` differs for any two objects of a page whatever size the
//! page is used for: a page that is given back and comes again with other slots needs no care.
//!
//! # Planes
//!
//! Since Ruby 3.2 slots have 40 · 2ⁿ bytes, and a page's first slot has a grain that is a multiple of
//! 2ⁿ (`gc.c` `heap_page_allocate`: "Find a num in page that is evenly divisible by `stride`", 3.2.3,
//! 3.3.8; 3.4.5 `gc/default/default.c` `heap_add_page`). So a page of 80-byte slots uses even grains only, one of
//! 160-byte slots every fourth, and numbers in a row would be half or three quarters holes. They lie
//! in *planes* instead, by how often 2 divides the grain:
//!
//! ```text
//!   grain     0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
//!   plane     4  0  1  0  2  0  1  0  3  0  1  0  2  0  1  0  4      5 planes; 0 is divided for ever
//!   slot      0  0  0  1  0  2  1  3  0  4  2  5  1  6  3  7  1
//! ```
//!
//! A plane's table is made when the first object is born in it, so each slot costs four bytes whatever
//! its size. Where pages were not laid out so the planes would only save nothing: every grain has a
//! place of its own.

/// Which table holds the number of a heap slot, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPath {
    /// Index into the table of roots; [`ROOTS`] or more = there is none.
    pub root: u32,
    /// Index into the root's tables.
    pub table: u32,
    /// Index into the table's numbers.
    pub slot: u32,
}

/// Bytes of address space of one root, as a power of two.
const ROOT_SHIFT: u32 = 30;
/// Roots that cover what a process can map.
pub const ROOTS: u32 = 1 << (47 - ROOT_SHIFT);
/// Every slot size is a multiple of this.
const GRAIN: u32 = 40;
/// Most planes: a page of 1 MiB has less than 2¹⁵ grains.
const MOST_PLANES: u32 = 16;

/// How a VM divides its heap into pages, and we their numbers into planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapShape {
    page_shift: u32,
    planes: u32,
}

impl HeapShape {
    /// Pages of `page_bytes`, a power of two, with slots of 40 bytes and of `sizes - 1` times the double.
    pub const fn new(page_bytes: u64, sizes: u64) -> Self {
        HeapShape {
            page_shift: page_bytes.trailing_zeros(),
            planes: sizes as u32,
        }
        .checked()
    }

    /// The same within bounds; what was read from a guest must not lead us astray.
    pub const fn checked(self) -> Self {
        let page_shift = match self.page_shift {
            0..12 => 12,
            shift @ 12..=20 => shift,
            _ => 20,
        };
        let planes = match self.planes {
            0 => 1,
            planes @ 1..=MOST_PLANES => planes,
            _ => MOST_PLANES,
        };
        HeapShape { page_shift, planes }
    }

    /// The path of `address`.
    ///
    /// This runs at each birth, so the two shapes there are (2.7 to 3.1, and since 3.2) are compiled with
    /// their numbers as constants.
    #[inline]
    pub const fn path(self, address: u64) -> SlotPath {
        match (self.page_shift, self.planes) {
            (14, 1) => HeapShape {
                page_shift: 14,
                planes: 1,
            }
            .path_by(address),
            (16, 5) => HeapShape {
                page_shift: 16,
                planes: 5,
            }
            .path_by(address),
            _ => self.path_by(address),
        }
    }

    #[inline(always)]
    const fn path_by(self, address: u64) -> SlotPath {
        let grain = (address as u32 & ((1 << self.page_shift) - 1)) / GRAIN;
        let last = self.planes - 1;
        let plane = (grain | 1 << last).trailing_zeros();
        let page = (address >> self.page_shift) as u32 & (self.pages_per_root() - 1);
        SlotPath {
            root: (address >> ROOT_SHIFT) as u32,
            table: page * self.planes + plane,
            // In all planes but the last the lowest bit that is left is always set.
            slot: grain >> plane >> (plane != last) as u32,
        }
    }

    /// Tables of one root.
    #[inline]
    pub const fn tables_per_root(self) -> u32 {
        self.pages_per_root() * self.planes
    }

    #[inline(always)]
    const fn pages_per_root(self) -> u32 {
        1 << (ROOT_SHIFT - self.page_shift)
    }

    /// Numbers of table `table` of a root.
    pub const fn numbers(self, table: u32) -> u32 {
        let greatest = ((1u32 << self.page_shift) - 1) / GRAIN;
        let plane = table % self.planes;
        (greatest >> plane >> (plane != self.planes - 1) as u32) + 1
    }

    /// The tables of the page that `address` lies in, within its root.
    pub const fn tables(self, address: u64) -> core::ops::Range<u32> {
        let first = self.path(address).table / self.planes * self.planes;
        first..first + self.planes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::HashSet;

    const SHAPES: [HeapShape; 3] = [
        HeapShape::new(1 << 14, 1),
        HeapShape::new(1 << 16, 5),
        HeapShape::new(1 << 15, 3),
    ];

    #[test]
    fn every_grain_of_every_page_has_a_place_of_its_own() {
        for shape in SHAPES {
            let bytes = 1u64 << shape.page_shift;
            let first = 0x7f12_3fff_0000u64;
            let mut seen = HashSet::new();
            let mut grains = 0;
            for page in (first..first + 4 * bytes).step_by(bytes as usize) {
                for grain in 0..bytes / u64::from(GRAIN) {
                    let path = shape.path(page + grain * u64::from(GRAIN) + 7);
                    assert!(path.root < ROOTS);
                    assert!(shape.tables(page).contains(&path.table));
                    assert!(path.table < shape.tables_per_root());
                    assert!(path.slot < shape.numbers(path.table), "{shape:?} {path:?}");
                    seen.insert((path.root, path.table, path.slot));
                    grains += 1;
                }
            }
            assert_eq!(seen.len(), grains);
        }
    }

    /// Slots laid out as `heap_page_allocate` does: numbers take four bytes a slot, and a few for the rounding.
    #[test]
    fn a_page_takes_four_bytes_a_slot_whatever_their_size() {
        let shape = SHAPES[1];
        for size in [40, 80, 160, 320, 640] {
            for page in [0x7f00_0000_0000u64, 0x7f00_0001_0000, 0x7f00_0002_0000] {
                let mut start = (page + 8).next_multiple_of(40);
                if (start - page) / 40 == 1 {
                    start += size - 40;
                }
                let slots = (page + 0x1_0000 - start) / size;
                let tables: HashSet<u32> = (0..slots)
                    .map(|slot| shape.path(start + slot * size).table)
                    .collect();
                let bytes: u64 = tables
                    .iter()
                    .map(|table| u64::from(shape.numbers(*table)) * 4)
                    .sum();
                assert!(bytes <= slots * 4 + 64, "{size}: {bytes} for {slots} slots");
            }
        }
    }

    #[test]
    fn a_shape_from_a_hostile_guest_stays_in_bounds() {
        for page_shift in [0, 11, 12, 20, 21, 31, 64, u32::MAX] {
            for planes in [0, 1, 5, 16, 17, u32::MAX] {
                let shape = HeapShape { page_shift, planes }.checked();
                for address in [0, 1, 0x7fff_ffff_ffff, u64::MAX] {
                    let path = shape.path(address);
                    assert!(path.table < shape.tables_per_root());
                    assert!(path.slot < shape.numbers(path.table));
                }
            }
        }
    }
}
