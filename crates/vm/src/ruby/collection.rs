//! Arrays and Hashes: `struct RArray` (`include/ruby/internal/core/rarray.h`; 2.7: `include/ruby/ruby.h`)
//! and `struct RHash` (`internal/hash.h`; 2.7: `internal.h`). Used by `sizes`.
//!
//! ```text
//!   0       8       16       24       32
//!   ├───────┼───────┼────────┼────────┼──────┤
//!   │ flags │ klass │ len    │ capa   │ ptr ────▶ elements   Array
//!   │ flags │ klass │ elements …                            Array, embedded (len in flags)
//!   │ flags │ klass │ table ──▶ …                            Hash, to 3.2
//!   │ flags │ klass │ ifnone │ table …                       Hash, since 3.3
//! ```
//!
//! A Hash of at most eight pairs is an `ar_table` (`hash.c`): an array of them, in which a deleted one has
//! `Qundef` for its key, and how many places are in use stands in the flags. A larger one is an `st_table`.

use super::layout::Hashes;
use super::object::{Type, USER_SHIFT};
use super::table::{MOST_HASH_ENTRIES, ST_ENTRY};
use super::{Error, Ruby, StTable};
use crate::{Fault, Memory};

/// `RARRAY_EMBED_FLAG`, `RARRAY_EMBED_LEN_SHIFT`; `as.ary`, `as.heap.len`, `as.heap.ptr`.
pub(super) const ARRAY_EMBEDDED: u64 = 1 << (USER_SHIFT + 1);
const EMBEDDED_LEN: u32 = USER_SHIFT + 3;
const ELEMENTS: u64 = 16;
const LEN: u64 = 16;
/// `as.heap.aux.capa`; of an Array that shares its elements with others, the one that owns them.
const CAPACITY: u64 = 24;
const POINTER: u64 = 32;

/// In the flags of a Hash: `RHASH_ST_TABLE_FLAG`, that it has an `st_table`; of an `ar_table` the shifts of the number of
/// pairs and of the places in use (`RHASH_AR_TABLE_SIZE_SHIFT`, `RHASH_AR_TABLE_BOUND_SHIFT`).
pub(super) const IS_ST: u64 = 1 << (USER_SHIFT + 3);
const AR_SIZE: u32 = USER_SHIFT + 4;
const AR_BOUND: u32 = USER_SHIFT + 8;
/// `RHASH_AR_TABLE_MAX_SIZE`; the size of the hints before the pairs since 3.3.
const AR_MOST: u64 = 8;
const AR_HINTS: u64 = 8;
/// `sizeof(ar_table)` to 3.2, in bytes: eight pairs of two words.
pub(super) const AR_TABLE: u64 = AR_MOST * 16;

/// `as` up to 3.2; what follows `struct RHash` since.
const HASH_POINTER: u64 = 16;
const HASH_TABLE: u64 = 24;

/// `entry_power`, one byte, and `num_entries` in `struct st_table`.
const ST_POWER: u64 = 0;
const ST_COUNT: u64 = 16;

/// The elements of an Array: their address and number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    pub address: u64,
    pub len: u64,
}

/// Pairs of a Hash; made by [`Ruby::pairs`].
pub(super) enum Pairs<'a, M> {
    Small {
        memory: &'a M,
        next: u64,
        left: u64,
        deleted: u64,
    },
    Large(StTable<'a, M>),
}

impl<M: Memory> Iterator for Pairs<'_, M> {
    type Item = Result<(u64, u64), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Pairs::Large(table) => table.next(),
            Pairs::Small {
                memory,
                next,
                left,
                deleted,
            } => {
                while *left > 0 {
                    let at = *next;
                    *next = at.wrapping_add(16);
                    *left -= 1;
                    let pair = memory
                        .u64(at)
                        .and_then(|key| Ok((key, memory.u64(at.wrapping_add(8))?)));
                    if !matches!(pair, Ok((key, _)) if key == *deleted) {
                        return Some(pair);
                    }
                }
                None
            }
        }
    }
}

impl<'a, M: Memory> Ruby<'a, M> {
    /// Returns how many elements an Array or pairs a Hash has.
    pub fn length(&self, object: u64) -> Result<u64, Error> {
        match self.type_of(object)? {
            Type::Array => Ok(self.elements(object)?.len),
            Type::Hash => Ok(self.pairs(object)?.0),
            _ => Err(Error::garbled("Array or Hash", object)),
        }
    }

    /// Returns for how many elements an Array, or entries a Hash, of so many bytes in all has room; `None` if none of them lie
    /// outside of its slot, or another object owns them.
    pub fn capacity(&self, object: u64, bytes: u64) -> Result<Option<u64>, Error> {
        let flags = self.flags(object)?;
        let (room, size) = match Type::of(flags) {
            Type::Array if flags & ARRAY_EMBEDDED == 0 => {
                (self.memory.u64(object.wrapping_add(CAPACITY))?, 8)
            }
            Type::Hash if flags & IS_ST != 0 => {
                let table = self.hash_table(object)?;
                let power = self.memory.u64(table.wrapping_add(ST_POWER))? as u8;
                (
                    1_u64.checked_shl(power.into()).unwrap_or(u64::MAX),
                    ST_ENTRY,
                )
            }
            _ => return Ok(None),
        };
        // What is no number of elements is an address, and larger.
        Ok(Some(room).filter(|room| room.checked_mul(size).is_some_and(|room| room <= bytes)))
    }

    /// Returns the address of a Hash's `ar_table` or `st_table`; 0 where it has none yet (to 3.2).
    pub(super) fn hash_table(&self, hash: u64) -> Result<u64, Fault> {
        match self.layout.collection.hash {
            Hashes::Pointer => self.memory.u64(hash.wrapping_add(HASH_POINTER)),
            Hashes::InSlot => Ok(hash.wrapping_add(HASH_TABLE)),
        }
    }

    /// Returns the elements of an Array.
    pub(super) fn elements(&self, array: u64) -> Result<Elements, Error> {
        let flags = self.flags(array)?;
        if Type::of(flags) != Type::Array {
            return Err(Error::garbled("Array", array));
        }
        Ok(if flags & ARRAY_EMBEDDED != 0 {
            Elements {
                address: array.wrapping_add(ELEMENTS),
                len: flags >> EMBEDDED_LEN & self.layout.collection.embedded_len,
            }
        } else {
            Elements {
                address: self.memory.u64(array.wrapping_add(POINTER))?,
                len: self.memory.u64(array.wrapping_add(LEN))?,
            }
        })
    }

    /// Returns how many pairs a Hash has, and the first of them.
    pub(super) fn pairs(&self, hash: u64) -> Result<(u64, Pairs<'a, M>), Error> {
        self.first_pairs(hash, MOST_HASH_ENTRIES)
    }

    /// The same with those in the first so many places of its table.
    pub(super) fn first_pairs(&self, hash: u64, most: u64) -> Result<(u64, Pairs<'a, M>), Error> {
        let flags = self.flags(hash)?;
        if Type::of(flags) != Type::Hash {
            return Err(Error::garbled("Hash", hash));
        }
        let table = self.hash_table(hash)?;
        let hints = match self.layout.collection.hash {
            Hashes::Pointer => 0,
            Hashes::InSlot => AR_HINTS,
        };
        if flags & IS_ST != 0 {
            let count = self.memory.u64(table.wrapping_add(ST_COUNT))?;
            return Ok((
                count,
                Pairs::Large(StTable::of_hash(self.memory, table, most)?),
            ));
        }
        let (size, bound) = (flags >> AR_SIZE & 0xf, flags >> AR_BOUND & 0xf);
        if size > bound || bound > AR_MOST {
            return Err(Error::garbled("Hash", hash));
        }
        let pairs = Pairs::Small {
            memory: self.memory,
            next: table.wrapping_add(hints),
            left: if table == 0 { 0 } else { bound },
            deleted: self.undefined(),
        };
        Ok((size, pairs))
    }
}
