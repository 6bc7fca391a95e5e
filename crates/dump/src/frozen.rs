//! The memory of a copy or of a core file, in blocks that are read once each.
//!
//! Nothing changes there, so what was read stays true, and a walk over all objects reads block after block. `process::pages` is for
//! walks that touch little and want to know what; this is for those that touch everything: a block is found by its number
//! without a search, and its place is taken by the next one that has the same.

use std::cell::RefCell;
use vm::{Fault, Memory};

/// Bytes of a block: the largest page of objects that a Ruby has.
const BLOCK: u64 = 64 << 10;
/// Blocks that are kept: 128 MiB.
const KEPT: usize = 2048;

/// See the module's text.
pub struct Frozen<'a> {
    memory: &'a dyn Memory,
    blocks: RefCell<Vec<Option<Block>>>,
}

struct Block {
    start: u64,
    /// Empty if not all of it can be read.
    bytes: Vec<u8>,
}

impl<'a> Frozen<'a> {
    /// Nothing has been read yet.
    pub fn new(memory: &'a dyn Memory) -> Self {
        let mut blocks = Vec::new();
        blocks.resize_with(KEPT, || None);
        Frozen {
            memory,
            blocks: RefCell::new(blocks),
        }
    }

    /// Copies bytes that lie within one block.
    #[inline]
    fn piece(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let within = (at % BLOCK) as usize;
        let mut blocks = self.blocks.borrow_mut();
        let bytes = self.block(&mut blocks, at - at % BLOCK);
        match bytes.get(within..within + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => self.memory.read(at, into),
        }
    }

    /// The bytes of the block that begins here; none if not all of them can be read.
    #[inline]
    fn block<'b>(&self, blocks: &'b mut [Option<Block>], start: u64) -> &'b [u8] {
        let place = &mut blocks[(start / BLOCK) as usize % KEPT];
        if place.as_ref().is_none_or(|block| block.start != start) {
            self.fill(place, start);
        }
        place.as_ref().map_or(&[], |block| &block.bytes)
    }

    /// Reads a block, into the memory of the one in whose place it comes.
    #[cold]
    fn fill(&self, place: &mut Option<Block>, start: u64) {
        let mut bytes = place.take().map_or_else(Vec::new, |block| block.bytes);
        bytes.resize(BLOCK as usize, 0);
        if self.memory.read(start, &mut bytes).is_err() {
            bytes.clear();
        }
        *place = Some(Block { start, bytes });
    }

    /// So many bytes as a number's.
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
