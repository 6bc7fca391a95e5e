//! Dicts: `PyDictObject` (`Include/cpython/dictobject.h`) and `PyDictKeysObject` (`dict-common.h`, since 3.11
//! `pycore_dict.h`). Used by `sizes`, `references` and `extra_sizes`.
//!
//! Keys lie in an array in order of insertion, behind a table of indices by hash; a deleted entry has no
//! value. Since 3.11, if all keys are str, an entry has no hash. A *split* dict shares its keys
//! with others and has its values in an array of its own, in the order of the keys.
//!
//! ```text
//!   PyDictKeysObject:  │ refcount, sizes, count │ indices … │ entry │ entry │ …
//!                                                            hash, key, value    │ key, value
//! ```
//!
//! Whoever looks for a name here compares texts one after the other: a name's hash is salted.

use super::attributes::CACHED_KEYS;
use super::object::{Builtin, HEAP_TYPE};
use super::string::LENGTH;
use super::{Error, Python};
use crate::{Fault, Memory};

/// Offsets of `ma_used`, `ma_keys` and `ma_values` in `PyDictObject`.
pub(super) const USED: u64 = 16;
pub(super) const KEYS: u64 = 32;
pub(super) const VALUES: u64 = 40;

/// To 3.10, `dk_size`. Since 3.11, `dk_log2_index_bytes` and `dk_kind`, in one aligned word with
/// `dk_log2_size` before them.
const SIZES: u64 = 8;

/// Values of `dk_kind` (`pycore_dict.h`): `DICT_KEYS_GENERAL` and `DICT_KEYS_SPLIT`.
const GENERAL: u8 = 0;
const SPLIT: u8 = 2;

/// Dicts with more entries are taken for garbage; dicts of names may have fewer.
const MOST_ENTRIES: u64 = 1 << 28;
const MOST_NAMES: u64 = 1 << 16;

/// Iterates over a dict: key and value of each entry.
pub struct Entries<'a, M> {
    memory: &'a M,
    /// Address of the next key.
    key: u64,
    /// Size of an entry.
    size: u64,
    /// Address of the next value, in a split dict; 0 where it is after the key.
    value: u64,
    left: u64,
    /// Whether keys are known to be str.
    pub(super) texts: bool,
}

impl<M> Entries<'_, M> {
    /// Looks at so many entries at most, the empty ones included: there are as many of these as the process says.
    pub(super) fn at_most(mut self, entries: u64) -> Self {
        self.left = self.left.min(entries);
        self
    }
}

impl<M: Memory> Iterator for Entries<'_, M> {
    type Item = Result<(u64, u64), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let (key, value) = match self.value {
                0 => (self.key, self.key.wrapping_add(8)),
                value => (self.key, value),
            };
            self.key = self.key.wrapping_add(self.size);
            if self.value != 0 {
                self.value = self.value.wrapping_add(8);
            }
            self.left -= 1;
            let read = self
                .memory
                .u64(key)
                .and_then(|key| Ok((key, self.memory.u64(value)?)));
            match read {
                Ok((0, _) | (_, 0)) => {}
                Ok(found) => return Some(Ok(found)),
                Err(fault) => {
                    self.left = 0;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

impl<M: Memory> Python<'_, M> {
    /// Returns the entries of a dict, in order of insertion (those of a split dict in the order of its class).
    pub fn entries(&self, dict: u64) -> Result<Entries<'_, M>, Error> {
        if !self.is(dict, Builtin::Dict)? {
            return Err(Error::garbled("dict", dict));
        }
        let keys = self.memory.u64(self.field(dict, KEYS))?;
        let values = self.memory.u64(self.field(dict, VALUES))?;
        self.entries_of(keys, values)
    }

    /// Returns the entries of a dict that has these keys and, if it is a split one, these values.
    pub(super) fn entries_of(&self, keys: u64, mut values: u64) -> Result<Entries<'_, M>, Error> {
        let count = self.memory.u64(keys.wrapping_add(self.layout.dict.count))?;
        if count > MOST_ENTRIES {
            return Err(Error::garbled("keys of a dict", keys));
        }
        let sizes = self.memory.u64(keys.wrapping_add(SIZES))?;
        let (indices, kind) = if self.layout.dict.compact {
            let log = (sizes >> 8) as u8;
            let indices = 1_u64.checked_shl(u32::from(log));
            (indices, (sizes >> 16) as u8)
        } else {
            (sizes.checked_mul(index_width(sizes)), GENERAL)
        };
        let indices = indices.ok_or(Error::garbled("keys of a dict", keys))?;
        let split = if self.layout.dict.compact {
            kind == SPLIT
        } else {
            values != 0
        };
        if split {
            values = values.wrapping_add(self.layout.dict.values);
        } else {
            values = 0;
        }
        let begin = keys
            .wrapping_add(self.layout.dict.indices)
            .wrapping_add(indices);
        let (key, size) = if kind == GENERAL {
            (begin.wrapping_add(8), 24)
        } else {
            (begin, 16)
        };
        Ok(Entries {
            memory: self.memory,
            key,
            size,
            value: values,
            // Objects share the names of their attributes.
            left: if split { count.min(MOST_NAMES) } else { count },
            texts: kind != GENERAL,
        })
    }

    /// Returns whether a dict shares its keys with other objects of a class, whose attributes it has.
    pub fn is_split(&self, dict: u64) -> Result<bool, Error> {
        Ok(self.memory.u64(self.field(dict, VALUES))? != 0)
    }

    /// Returns whether all keys of a table are str, so that its entries have no hashes; since 3.11.
    pub(super) fn has_text_keys(&self, keys: u64) -> Result<bool, Error> {
        let kind = (self.memory.u64(keys.wrapping_add(SIZES))? >> 16) as u8;
        Ok(self.layout.dict.compact && kind != GENERAL)
    }

    /// Returns the keys that objects of a class share; 0 if they share none.
    pub(super) fn shared_keys(&self, class: u64) -> Result<u64, Error> {
        if self.flags(class)? & HEAP_TYPE == 0 {
            return Ok(0);
        }
        let at = self.layout.type_qualname.wrapping_add(CACHED_KEYS);
        Ok(self.memory.u64(class.wrapping_add(at))?)
    }

    /// Returns how many values there is room for beside shared keys (`shared_keys_usable_size`, `pycore_dict.h`), since 3.11.
    pub(super) fn shared_room(&self, keys: u64) -> Result<u64, Error> {
        let count = self.memory.u64(keys.wrapping_add(self.layout.dict.count))?;
        let usable = self
            .memory
            .u64(keys.wrapping_add(self.layout.dict.count - 8))?;
        Ok(count.saturating_add(usable).min(MOST_NAMES))
    }

    /// Returns the bytes of a table and how many entries it has room for (`_PyDict_KeysSize`, `USABLE_FRACTION`).
    pub(super) fn size_of_keys(&self, keys: u64) -> Result<(u64, u64), Error> {
        let sizes = self.memory.u64(keys.wrapping_add(SIZES))?;
        let (slots, indices, entry) = if self.layout.dict.compact {
            let power = |log: u64| 1_u64.checked_shl((log & 0xff) as u32).unwrap_or(0);
            let entry = if self.has_text_keys(keys)? { 16 } else { 24 };
            (power(sizes), power(sizes >> 8), entry)
        } else {
            (sizes, sizes.saturating_mul(index_width(sizes)), 24)
        };
        let room = slots.min(MOST_ENTRIES << 2) * 2 / 3;
        Ok((
            self.layout.dict.indices + indices.min(MOST_ENTRIES << 5) + room * entry,
            room,
        ))
    }

    /// Returns the entries of a dict of names.
    pub(super) fn names(&self, dict: u64) -> Result<Entries<'_, M>, Error> {
        let entries = self.entries(dict)?;
        if entries.left > MOST_NAMES {
            return Err(Error::garbled("dict of names", dict));
        }
        Ok(entries)
    }

    /// Returns how many entries a dict has.
    pub(super) fn dict_len(&self, dict: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(self.field(dict, USED))?)
    }

    /// Returns the value under the str `name`.
    pub(super) fn value_of(&self, dict: u64, name: &str) -> Result<Option<u64>, Error> {
        self.value_among(self.names(dict)?, name)
    }

    /// Returns the value under the str `name` among some entries.
    pub(super) fn value_among(
        &self,
        entries: Entries<'_, M>,
        name: &str,
    ) -> Result<Option<u64>, Error> {
        let texts = entries.texts;
        let len = name.chars().count() as u64;
        for entry in entries {
            let (key, value) = entry?;
            if !texts && !self.is(key, Builtin::Str)?
                || self.memory.u64(self.field(key, LENGTH))? != len
            {
                continue;
            }
            if self.ends_as(self.text_unchecked(key)?, 0, name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Bytes of an index into a table of so many slots, to 3.10 (`DK_IXSIZE`).
fn index_width(slots: u64) -> u64 {
    match slots {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}
