//! The memory of a copy, in blocks that are read once each.
//!
//! Nothing changes there, so what was read stays true, and a walk over all objects reads block after block. `process::pages` is for
//! walks that touch little and want to know what; this is for those that touch everything: a block is found by its number
//! without a search, and its place is taken by the next one that has the same.

use process::memory::GuestMemory;
use std::cell::RefCell;
use vm::{Fault, Memory};

/// Bytes of a block: the largest page of objects that a Ruby has.
const BLOCK: u64 = 64 << 10;
/// Blocks that are kept: 128 MiB.
const KEPT: usize = 2048;

/// See the module's text.
pub struct Frozen<'a> {
    memory: &'a GuestMemory,
    blocks: RefCell<Vec<Option<Block>>>,
}

struct Block {
    start: u64,
    /// Empty if not all of it can be read.
    bytes: Box<[u8]>,
}

impl<'a> Frozen<'a> {
    /// Nothing has been read yet.
    pub fn new(memory: &'a GuestMemory) -> Self {
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
        let start = at & !(BLOCK - 1);
        let place = (start / BLOCK) as usize % KEPT;
        let mut blocks = self.blocks.borrow_mut();
        let block = &mut blocks[place];
        if block.as_ref().is_none_or(|block| block.start != start) {
            *block = Some(self.block(start));
        }
        let within = (at - start) as usize;
        let bytes = block.as_ref().map_or(&[][..], |block| &block.bytes);
        match bytes.get(within..within + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => self.memory.read(at, into),
        }
    }

    fn block(&self, start: u64) -> Block {
        let mut bytes = vec![0; BLOCK as usize].into_boxed_slice();
        if self.memory.read_bytes(start, &mut bytes).is_err() {
            bytes = Box::default();
        }
        Block { start, bytes }
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
}
