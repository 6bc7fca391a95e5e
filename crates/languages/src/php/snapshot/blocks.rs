//! The blocks that PHP's allocator has handed out, and their sizes. Used by `snapshot`, `kinds` and `walk`.

use crate::snapshot::frozen::Frozen;
use foldhash::{HashMap, HashSet};
use vm::php::allocator::{Allocator, CHUNK};

/// The blocks of one PHP's allocator, and those in which objects were found. The bytes of a block are counted once, for the first object
/// that takes it.
pub struct Blocks<'a> {
    memory: &'a Frozen<'a>,
    allocator: Allocator,
    chunks: HashSet<u64>,
    /// Sizes of the blocks that have mappings of their own, in bytes, by their addresses.
    large: HashMap<u64, u64>,
    /// Blocks taken by an object.
    taken: HashSet<u64>,
    /// Sum of the sizes of the blocks in `taken`, in bytes.
    pub bytes: u64,
}

impl<'a> Blocks<'a> {
    /// Finds the allocator by the address of a block; `bytes` = memory of the process.
    pub fn find(memory: &'a Frozen<'a>, block: u64, bytes: u64) -> Option<Self> {
        let allocator = Allocator::of(memory, block)?;
        let most = usize::try_from(bytes / CHUNK + 1024).unwrap_or(usize::MAX);
        let mut chunks = HashSet::default();
        let mut at = Some(allocator.main);
        while let Some(chunk) = at
            && chunks.len() < most
            && chunks.insert(chunk)
        {
            at = allocator.next_chunk(memory, chunk);
        }
        let mut large = HashMap::default();
        let mut entry = allocator.large(memory).unwrap_or(0);
        while entry != 0
            && large.len() < most
            && let Some((start, size, next)) = allocator.large_block(memory, entry)
            && large.insert(start, size).is_none()
        {
            entry = next;
        }
        Some(Blocks {
            memory,
            allocator,
            chunks,
            large,
            taken: HashSet::default(),
            bytes: 0,
        })
    }

    /// The size of the block that begins at an address, if one does.
    pub fn size(&self, at: u64) -> Option<u64> {
        if self.chunks.contains(&(at & !(CHUNK - 1))) && !at.is_multiple_of(CHUNK) {
            return self.allocator.block(self.memory, at);
        }
        self.large.get(&at).copied()
    }

    /// Marks a block as taken, and returns its size in bytes; 0 if no block begins there or something else has taken it.
    pub fn take(&mut self, at: u64) -> u64 {
        let size = self.size(at).unwrap_or(0);
        if size == 0 || !self.taken.insert(at) {
            return 0;
        }
        self.bytes = self.bytes.saturating_add(size);
        size
    }

    /// An address that no block has: that of the first chunk, which begins with the allocator's own data.
    pub fn own(&self) -> u64 {
        self.allocator.main
    }

    /// The bytes in use that nothing has taken, and whether more was taken than is in use.
    pub fn rest(&self) -> (u64, bool) {
        let used = self.allocator.in_use(self.memory).unwrap_or(0);
        (used.saturating_sub(self.bytes), used < self.bytes)
    }
}
