//! A cache of large blocks over memory that does not change: that of a copy or of a core file. Used by
//! `perl::snapshot`, `perl::snapshot::walk`, `php::snapshot` and others.
//!
//! A walk over all objects reads block after block, in a few places at once: slots, texts, a large table. `process::pages` suits walks that
//! touch little memory and want to know which; this cache suits those that touch all of it. A block is found by its number without a
//! search. Four blocks with the same place in the cache are kept, so that walks in several places do not evict each other's blocks. The
//! cache is small because memory that is touched for the first time costs more than reading a block again.

use process::maps;
use std::cell::RefCell;
use vm::{Fault, Memory};

/// Bytes of a block: the largest page of objects that a Ruby has.
const BLOCK: u64 = 64 << 10;
/// Blocks that share a place, and number of places: together 16 MiB.
const WAYS: usize = 4;
const PLACES: usize = 64;
/// Bytes of a page of memory, of which mappings are made; each page of a block has a bit.
const PAGE: usize = maps::PAGE as usize;
const _: () = assert!(BLOCK as usize / PAGE == u16::BITS as usize);
/// In `starts`: no block.
const NO_BLOCK: u64 = u64::MAX;

/// A cache over memory that does not change, used for one snapshot. If the memory changed, the cache would return bytes of different
/// moments.
pub struct Frozen<'a> {
    memory: &'a dyn Memory,
    places: RefCell<Vec<Place>>,
}

/// Blocks whose numbers have the same low bits.
struct Place {
    /// Address of each block; `NO_BLOCK` where none was read yet.
    starts: [u64; WAYS],
    /// What was read of each; of what cannot be read zeros.
    bytes: [Vec<u8>; WAYS],
    /// Which pages of each can be read, a bit a page. A mapping begins or ends within a block as a rule, and what lies there is asked for as
    /// often as anything else.
    readable: [u16; WAYS],
    /// Index of the block that is replaced next.
    oldest: usize,
}

impl<'a> Frozen<'a> {
    /// Returns a cache in which nothing has been read yet.
    pub fn new(memory: &'a dyn Memory) -> Self {
        let mut places = Vec::new();
        places.resize_with(PLACES, || Place {
            starts: [NO_BLOCK; WAYS],
            bytes: Default::default(),
            readable: [0; WAYS],
            oldest: 0,
        });
        Frozen {
            memory,
            places: RefCell::new(places),
        }
    }

    /// Copies bytes that lie within one block.
    #[inline]
    fn piece(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let within = (at % BLOCK) as usize;
        let mut places = self.places.borrow_mut();
        let end = within + into.len();
        let (bytes, readable) = self.block(&mut places, at - at % BLOCK);
        if readable != u16::MAX
            && !(within / PAGE..end.div_ceil(PAGE)).all(|page| readable >> page & 1 != 0)
        {
            // What the error says is the memory's to know.
            return self.memory.read(at, into);
        }
        into.copy_from_slice(&bytes[within..end]);
        Ok(())
    }

    /// The bytes of the block that begins at `start`, and which of its pages can be read.
    #[inline]
    fn block<'b>(&self, places: &'b mut [Place], start: u64) -> (&'b [u8], u16) {
        let place = &mut places[(start / BLOCK) as usize % PLACES];
        let way = place.starts.iter().position(|one| *one == start);
        let way = way.unwrap_or_else(|| self.fill(place, start));
        (&place.bytes[way], place.readable[way])
    }

    /// Reads a block into the place of the oldest one.
    #[cold]
    fn fill(&self, place: &mut Place, start: u64) -> usize {
        let way = place.oldest;
        place.oldest = (way + 1) % WAYS;
        let bytes = &mut place.bytes[way];
        bytes.resize(BLOCK as usize, 0);
        place.readable[way] = match self.memory.read(start, bytes) {
            Ok(()) => u16::MAX,
            Err(_) => self.pages(start, bytes),
        };
        place.starts[way] = start;
        way
    }

    /// Reads the pages of a block one by one, and returns which of them can be read.
    fn pages(&self, start: u64, bytes: &mut [u8]) -> u16 {
        let pages = (start..).step_by(PAGE).zip(bytes.chunks_exact_mut(PAGE));
        pages.enumerate().fold(0, |readable, (index, (at, page))| {
            readable | u16::from(self.memory.read(at, page).is_ok()) << index
        })
    }

    /// Reads the `N` bytes of a number.
    #[inline]
    fn few<const N: usize>(&self, at: u64) -> Result<[u8; N], Fault> {
        let within = (at % BLOCK) as usize;
        let mut bytes = [0; N];
        if within + N > BLOCK as usize {
            self.read(at, &mut bytes)?;
        } else {
            self.piece(at, &mut bytes)?;
        }
        Ok(bytes)
    }
}

impl Memory for Frozen<'_> {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let end = at.checked_add(into.len() as u64).ok_or(Fault { at })?;
        let mut from = at;
        while from < end {
            let next = ((from & !(BLOCK - 1)).saturating_add(BLOCK)).min(end);
            let (begin, stop) = ((from - at) as usize, (next - at) as usize);
            self.piece(from, &mut into[begin..stop])?;
            from = next;
        }
        Ok(())
    }

    #[inline]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.few(at)?))
    }

    #[inline]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.few(at)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A memory in which each word is its own address, and its third MiB cannot be read.
    struct Addresses(Cell<u32>);

    impl Memory for Addresses {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            self.0.set(self.0.get() + 1);
            for (index, byte) in (0..).zip(into) {
                let at = at + index;
                if at >> 20 == 2 {
                    return Err(Fault { at });
                }
                *byte = (at & !7).to_le_bytes()[(at % 8) as usize];
            }
            Ok(())
        }
    }

    #[test]
    fn walks_in_several_places_read_each_block_once() {
        let memory = Addresses(Cell::new(0));
        let frozen = Frozen::new(&memory);
        // Three walks whose blocks have the same places at each step.
        let far = BLOCK * PLACES as u64;
        for step in 0..2 * BLOCK / 8 {
            for walk in [0, 4 * far, 9 * far] {
                let at = walk + step * 8;
                assert_eq!(frozen.u64(at), Ok(at));
            }
        }
        assert_eq!(memory.0.get(), 6);
        // Across the end of a block, and of what can be read.
        assert_eq!(frozen.u64((1 << 20) - 8), Ok((1 << 20) - 8));
        let mut bytes = [0; 16];
        assert_eq!(frozen.read(BLOCK - 8, &mut bytes), Ok(()));
        assert_eq!(bytes[8..], BLOCK.to_le_bytes());
        assert!(frozen.u64(2 << 20).is_err() && frozen.read((2 << 20) - 8, &mut bytes).is_err());
        assert_eq!(frozen.u64((2 << 20) - 8), Ok((2 << 20) - 8));
    }

    /// A mapping ends within a block: what can be read of it is read once, whole pages, and what cannot is an error each time.
    #[test]
    fn a_block_that_ends_early_is_read_once() {
        struct Ends(Cell<u32>);
        const END: u64 = BLOCK + 3 * PAGE as u64;
        impl Memory for Ends {
            fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
                self.0.set(self.0.get() + 1);
                if at + into.len() as u64 > END {
                    return Err(Fault { at: END });
                }
                into.fill(7);
                Ok(())
            }
        }
        let memory = Ends(Cell::new(0));
        let frozen = Frozen::new(&memory);
        for at in (BLOCK..END).step_by(8) {
            assert_eq!(frozen.u64(at), Ok(0x0707_0707_0707_0707));
        }
        // The block in vain, and each of its pages.
        assert_eq!(memory.0.get(), 17);
        for at in [END - 4, END, END + BLOCK] {
            assert_eq!(frozen.u64(at), Err(Fault { at: END }));
        }
        let mut bytes = [0; 2 * PAGE];
        let last = END - 2 * PAGE as u64;
        assert_eq!(frozen.read(last, &mut bytes), Ok(()));
        assert_eq!(frozen.read(last + 1, &mut bytes), Err(Fault { at: END }));
    }
}
