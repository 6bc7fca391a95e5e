//! Which objects were met, and those whose references are still to be told. In the child, which may use no allocator: both are mappings
//! of their own, which take memory where they are touched only. Used by `languages::python::snapshot`.

use crate::memory::follow::ours;
use crate::memory::sys;

/// Bits of an address within a leaf, and of all addresses that a process has (x86-64 with four levels of page tables).
const LEAF_BITS: u32 = 30;
const ADDRESS_BITS: u32 = 47;
/// An object begins at a multiple of eight, so a leaf has a bit for each eight bytes.
const LEAF_BYTES: u64 = 1 << (LEAF_BITS - 3 - 3);
const LEAVES: u64 = 1 << (ADDRESS_BITS - LEAF_BITS);

/// A set of addresses, which takes 1/64 of the memory that they lie in.
pub struct Seen {
    /// Addresses of leaves; 0 = none of its addresses is in the set.
    leaves: &'static mut [u64],
}

impl Seen {
    /// An empty set; `None` = there is no memory.
    pub fn new() -> Option<Self> {
        let at = sys::map(LEAVES * 8)?;
        // SAFETY: a fresh mapping of this size, which nobody else knows and nobody gives back.
        let leaves = unsafe { core::slice::from_raw_parts_mut(ours::<u64>(at), LEAVES as usize) };
        Some(Seen { leaves })
    }

    /// Adds an address; whether it was not in the set. `None` = it can be that of no object, or there is no memory.
    pub fn insert(&mut self, address: u64) -> Option<bool> {
        let leaf = self.leaves.get_mut((address >> LEAF_BITS) as usize)?;
        if !address.is_multiple_of(8) {
            return None;
        }
        if *leaf == 0 {
            *leaf = sys::map(LEAF_BYTES)?;
        }
        let bit = (address & ((1 << LEAF_BITS) - 1)) >> 3;
        // SAFETY: a leaf has a bit for each eight bytes of its addresses, and nobody else uses it.
        let byte = unsafe { &mut *ours::<u8>(*leaf + (bit >> 3)) };
        let mask = 1 << (bit & 7);
        let is_new = *byte & mask == 0;
        *byte |= mask;
        Some(is_new)
    }
}

/// A stack of addresses.
pub struct Open {
    at: u64,
    bytes: u64,
    used: u64,
}

impl Open {
    /// An empty stack; `None` = there is no memory.
    pub fn new() -> Option<Self> {
        const FIRST: u64 = 1 << 20;
        Some(Open {
            at: sys::map(FIRST)?,
            bytes: FIRST,
            used: 0,
        })
    }

    /// Adds an address; whether there was memory for it.
    pub fn push(&mut self, address: u64) -> bool {
        if self.used == self.bytes {
            // SAFETY: a whole mapping of ours, into which nothing keeps a pointer.
            let Some(longer) = (unsafe { sys::remap(self.at, self.bytes, self.bytes * 2) }) else {
                return false;
            };
            (self.at, self.bytes) = (longer, self.bytes * 2);
        }
        // SAFETY: within the mapping, which is a multiple of eight bytes long.
        unsafe { ours::<u64>(self.at + self.used).write(address) };
        self.used += 8;
        true
    }

    /// Takes the address that was added last; `None` = the stack is empty.
    pub fn pop(&mut self) -> Option<u64> {
        self.used = self.used.checked_sub(8)?;
        // SAFETY: it was written by `push`.
        Some(unsafe { ours::<u64>(self.at + self.used).read() })
    }
}

#[cfg(test)]
mod tests;
