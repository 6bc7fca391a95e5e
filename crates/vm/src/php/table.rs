//! Hash tables: `zend_array`, also called `HashTable` (`zend_types.h`), as far as keys are strings. Used by
//! `heap::values`, `function`, `facts` and others.
//!
//! ```text
//!   arData − 4·size: uint32_t[size], the first bucket of each chain ── nTableMask = −size
//!   arData ──────▶ Bucket { zval (its u2 is the next of the chain), h, key } …
//! ```
//!
//! A packed array, whose keys are numbers, has mask −2 and other elements since 8.2; it is not looked into.
//! The same in all versions.

use super::{Error, Text};
use crate::{Fault, Memory, bytes};

/// `nTableMask`, `arData`, `nNumUsed` and `nNumOfElements`; `u.flags`.
pub(super) const FLAGS: u64 = 8;
pub(super) const MASK: u64 = 12;
pub(super) const DATA: u64 = 16;
pub(super) const USED: u64 = 24;
pub(super) const COUNT: u64 = 28;

/// `HASH_FLAG_PACKED` and `HASH_FLAG_UNINITIALIZED` in `u.flags`.
pub(super) const PACKED: u32 = 1 << 2;
pub(super) const UNINITIALIZED: u32 = 1 << 3;

/// `Bucket`: size, `val.u2.next`, `h`, `key`.
pub(super) const BUCKET: u64 = 32;
const NEXT: u64 = 12;
pub(super) const HASH: u64 = 16;
pub(super) const KEY: u64 = 24;

/// Offset of `val.u1.v.type` in a `Bucket`; `IS_UNDEF`, its value where an entry was deleted.
const TYPE: u64 = 8;
const UNDEF: u8 = 0;

/// `HT_INVALID_IDX`, which ends a chain.
const NONE: u32 = u32::MAX;

/// Entries of a table of functions or classes, and of one chain, at most.
const MOST: u32 = 1 << 20;

/// `len` and `val` in `zend_string`.
const STRING_LEN: u64 = 16;
const STRING_BYTES: u64 = 24;

/// Bytes of a string; a longer one is taken for garbage.
const LONGEST: u64 = 1 << 40;

/// Returns the bytes of a `zend_string`.
pub(super) fn string<M: Memory>(memory: &M, at: u64) -> Result<Text, Error> {
    match memory.u64(at.wrapping_add(STRING_LEN))? {
        len if len < LONGEST => Ok(Text::bytes(at.wrapping_add(STRING_BYTES), len)),
        _ => Err(Error::garbled("string", at)),
    }
}

/// `zend_inline_hash_func` (`zend_string.h`): DJB's times 33, with the highest bit set.
pub(super) fn hash(key: &[u8]) -> u64 {
    let sum = key.iter().fold(5381_u64, |sum, &byte| {
        sum.wrapping_mul(33).wrapping_add(u64::from(byte))
    });
    sum | 1 << 63
}

/// A `zend_array` with strings for keys.
pub(super) struct Table<'m, M> {
    memory: &'m M,
    data: u64,
    mask: u32,
    used: u32,
}

impl<'m, M: Memory> Table<'m, M> {
    pub(super) fn new(memory: &'m M, at: u64) -> Result<Table<'m, M>, Error> {
        let flags = memory.u32(at.wrapping_add(FLAGS))?;
        let used = memory.u32(at.wrapping_add(USED))?;
        if flags & PACKED != 0 || used > MOST {
            return Err(Error::garbled("table", at));
        }
        Ok(Table {
            memory,
            data: memory.u64(at.wrapping_add(DATA))?,
            mask: memory.u32(at.wrapping_add(MASK))?,
            used: if flags & UNINITIALIZED != 0 { 0 } else { used },
        })
    }

    fn bucket(&self, index: u32) -> u64 {
        self.data.wrapping_add(u64::from(index) * BUCKET)
    }

    /// Returns the address of the zval under a key with that hash.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> Result<Option<u64>, Error> {
        if self.used == 0 {
            return Ok(None);
        }
        let slot = (hash as u32 | self.mask).cast_signed();
        let mut index = self
            .memory
            .u32(self.data.wrapping_add_signed(i64::from(slot) * 4))?;
        for _ in 0..self.used {
            if index == NONE {
                return Ok(None);
            }
            if index >= self.used {
                return Err(Error::garbled("table", self.data));
            }
            let bucket = self.bucket(index);
            let name = self.memory.u64(bucket.wrapping_add(KEY))?;
            if name != 0
                && self.memory.u64(bucket.wrapping_add(HASH))? == hash
                && bytes::is(self.memory, string(self.memory, name)?, key)?
            {
                return Ok(Some(bucket));
            }
            index = self.memory.u32(bucket.wrapping_add(NEXT))?;
        }
        Ok(None)
    }

    /// Returns keys and addresses of zvals, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Result<(Text, u64), Error>> + '_ {
        (0..self.used).filter_map(|index| self.entry(index).transpose())
    }

    fn entry(&self, index: u32) -> Result<Option<(Text, u64)>, Error> {
        let bucket = self.bucket(index);
        let name = self.memory.u64(bucket.wrapping_add(KEY))?;
        if name == 0 || self.type_of(bucket)? == UNDEF {
            return Ok(None);
        }
        Ok(Some((string(self.memory, name)?, bucket)))
    }

    fn type_of(&self, zval: u64) -> Result<u8, Fault> {
        self.memory.u8(zval.wrapping_add(TYPE))
    }
}
