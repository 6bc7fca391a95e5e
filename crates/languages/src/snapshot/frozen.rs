//! A cache of large blocks over memory that does not change: that of a copy or of a core file.
//!
//! A walk over all objects reads block after block, in a few places at once: slots, texts, a large table. `process::pages` suits walks that
//! touch little memory and want to know which; this cache suits those that touch all of it. A block is found by its number without a
//! search. Four blocks with the same place in the cache are kept, so that walks in several places do not evict each other's blocks. The
//! cache is small because memory that is touched for the first time costs more than reading a block again.

use std::cell::RefCell;
use vm::{Fault, Memory};

/// Bytes of a block: the largest page of objects that a Ruby has.
const BLOCK: u64 = 64 << 10;
/// Blocks that share a place, and number of places: together 16 MiB.
const WAYS: usize = 4;
const PLACES: usize = 64;
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
    /// Empty if the block cannot be read completely.
    bytes: [Vec<u8>; WAYS],
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
        let bytes = self.block(&mut places, at - at % BLOCK);
        match bytes.get(within..within + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => self.memory.read(at, into),
        }
    }

    /// The bytes of the block that begins at `start`; empty if it cannot be read completely.
    #[inline]
    fn block<'b>(&self, places: &'b mut [Place], start: u64) -> &'b [u8] {
        let place = &mut places[(start / BLOCK) as usize % PLACES];
        let way = place.starts.iter().position(|one| *one == start);
        let way = way.unwrap_or_else(|| self.fill(place, start));
        &place.bytes[way]
    }

    /// Reads a block into the place of the oldest one.
    #[cold]
    fn fill(&self, place: &mut Place, start: u64) -> usize {
        let way = place.oldest;
        place.oldest = (way + 1) % WAYS;
        let bytes = &mut place.bytes[way];
        bytes.resize(BLOCK as usize, 0);
        if self.memory.read(start, bytes).is_err() {
            bytes.clear();
        }
        place.starts[way] = start;
        way
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
}
