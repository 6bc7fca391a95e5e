//! Attributes that an object has of its own, where its class was made in Python: its `__dict__`, which is seldom a dict.
//! Used by `sizes` and `dict`.
//!
//! | | where (`_PyObject_GetDictPtr` and its kin, `pycore_object.h`) |
//! |---|---|
//! | 3.9, 3.10 | the dict at `tp_dictoffset` |
//! | 3.11 | before the object: the dict 24 bytes, the values 32 bytes; one of them is there |
//! | 3.12 | 24 bytes before it: the dict, or the address one below the values |
//! | since 3.13 | 24 bytes before it the dict (8 without the GIL); without one the values behind it, if they are marked as valid |
//!
//! Values alone belong to the keys that all objects of the class share, as those of a split dict.

use super::layout::Attributes;
use super::object::BASIC_SIZE;
use super::{Error, Python};
use crate::Memory;

/// `tp_dictoffset` in `PyTypeObject` (`cpython/object.h`).
const DICT_OFFSET: u64 = 288;
/// `Py_TPFLAGS_MANAGED_DICT`, since 3.11, and `Py_TPFLAGS_INLINE_VALUES`, since 3.13 (`object.h`).
pub(super) const MANAGED_DICT: u64 = 1 << 4;
pub(super) const INLINE_VALUES: u64 = 1 << 2;
/// From `ht_qualname` to `ht_cached_keys` in `PyHeapTypeObject`.
pub(super) const CACHED_KEYS: u64 = 8;
/// `valid` in `struct _dictvalues` (`pycore_dict.h`, since 3.13).
const VALID: u64 = 3;
/// The dict and the values before an object.
const DICT_BEFORE: u64 = 24;
const VALUES_BEFORE: u64 = 32;

impl<M: Memory> Python<'_, M> {
    /// Returns the value of an attribute that an object has of its own.
    pub(super) fn own_value(&self, object: u64, name: &str) -> Result<Option<u64>, Error> {
        let class = self.type_of(object)?;
        let (dict, values) = self.dict_and_values(object, class)?;
        if dict != 0 {
            return self.value_of(dict, name);
        }
        if values == 0 {
            return Ok(None);
        }
        let keys = self.shared_keys(class)?;
        if keys == 0 {
            return Ok(None);
        }
        self.value_among(self.entries_of(keys, values)?, name)
    }

    /// Returns the dict that has the attributes of an object; 0 if there is none.
    pub fn own_dict(&self, object: u64, class: u64) -> Result<u64, Error> {
        Ok(self.dict_and_values(object, class)?.0)
    }

    /// Returns the addresses of the dict and of the values of an object; 0 where there is none.
    pub(super) fn dict_and_values(&self, object: u64, class: u64) -> Result<(u64, u64), Error> {
        let before = |bytes: u64| self.memory.u64(object.wrapping_sub(bytes));
        let flags = self.flags(class)?;
        if self.layout.attributes != Attributes::Dict && flags & MANAGED_DICT == 0 {
            return Ok((0, 0));
        }
        Ok(match self.layout.attributes {
            Attributes::Dict => match self.memory.u64(class.wrapping_add(DICT_OFFSET))? {
                // Behind items, whose number says where.
                at if (at as i64) <= 0 => (0, 0),
                at => (self.memory.u64(object.wrapping_add(at))?, 0),
            },
            Attributes::Beside => (before(DICT_BEFORE)?, before(VALUES_BEFORE)?),
            Attributes::Tagged => match before(DICT_BEFORE)? {
                tagged if tagged & 1 == 1 => (0, tagged.wrapping_add(1)),
                dict => (dict, 0),
            },
            Attributes::Inline(at) => match before(at)? {
                0 if flags & INLINE_VALUES != 0 => {
                    let size = self.memory.u64(self.field(class, BASIC_SIZE))?;
                    let values = object.wrapping_add(size);
                    let valid = self.memory.u8(values.wrapping_add(VALID))? != 0;
                    (0, if valid { values } else { 0 })
                }
                dict => (dict, 0),
            },
        })
    }
}
