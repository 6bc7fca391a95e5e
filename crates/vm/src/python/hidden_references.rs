//! What objects of a few classes made in C refer to and do not tell the collector, because it can be in no cycle, or because the class
//! takes no part in garbage collection. Used by `references`.
//!
//! | class | what its `tp_traverse` leaves out | source |
//! |---|---|---|
//! | `numpy.ndarray`, which has none | the object that a view looks into (`base`), the type of its elements (`descr`), and elements that are objects | `PyArrayObject_fields`, `PyArray_Descr`, `numpy/core/include/numpy/ndarraytypes.h` (1.24), `numpy/_core/include/numpy/ndarraytypes.h` (2.2) |
//! | `_io.BytesIO` | the bytes that it fills (to 3.12) | `bytesio`, `Modules/_io/bytesio.c` |
//! | `_io.StringIO` | what was written and not read yet: to 3.11 two lists, then a str | `stringio`, `Modules/_io/stringio.c`; `_PyAccu`, `Include/internal/pycore_accu.h`; `_PyUnicodeWriter`, `Include/cpython/unicodeobject.h` |
//!
//! Where an array's type of elements is found to be a `numpy.dtype`, its words lie as they are read here; otherwise nothing is read of it.

use super::class::{BASE, LONGEST_NAME, MOST_BASES};
use super::extra_sizes::Beside;
use super::kind::Kind;
use super::{Error, Python, Version};
use crate::Memory;

/// `data`, `base`, `descr` in `PyArrayObject_fields`.
const DATA: u64 = 16;
const ARRAY_BASE: u64 = 48;
const DESCR: u64 = 56;
/// `type_num` in `PyArray_Descr`, and what it is of objects: `NPY_OBJECT`.
const TYPE_NUMBER: u64 = 28;
const OBJECTS: u32 = 17;
/// `buf` in `bytesio`.
const BUFFER: u64 = 16;
/// What a `stringio` writes into: `accu.large` and `accu.small`, `writer.buffer`, or since 3.14 `writer`, which begins with `buffer`.
const WRITER: u64 = 56;

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with those references of an object that have a name in C and may be told to no collector: target, name.
    pub fn parts(
        &self,
        object: u64,
        kind: &Kind,
        each: &mut dyn FnMut(u64, &'static str),
    ) -> Result<(), Error> {
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        let mut note = |target: u64, name| {
            if target != 0 && target.is_multiple_of(8) {
                each(target, name);
            }
        };
        match kind.beside {
            Beside::Elements if self.is_array(object)? => {
                note(word(ARRAY_BASE)?, "base");
                note(word(DESCR)?, "dtype");
            }
            Beside::Bytes => note(word(BUFFER)?, "buf"),
            Beside::Characters => {
                let version = self.facts.version();
                let writer = word(WRITER)?;
                if version >= Version::new(3, 14, 0) {
                    if writer != 0 {
                        note(self.memory.u64(writer)?, "buffer");
                    }
                } else {
                    note(writer, "buffer");
                }
                if version < Version::new(3, 12, 0) {
                    note(word(WRITER + 8)?, "buffer");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Calls `each` with the elements of an array of objects, at most `most`, if they are its own; those of a view its base has.
    pub fn objects_of_array(
        &self,
        object: u64,
        kind: &Kind,
        most: u64,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if kind.beside != Beside::Elements || !self.is_array(object)? {
            return Ok(());
        }
        let of = self.memory.u64(object.wrapping_add(DESCR))?;
        if self.memory.u32(of.wrapping_add(TYPE_NUMBER))? != OBJECTS {
            return Ok(());
        }
        let count = (self.own_elements(object)? / 8).min(most);
        let begin = self.memory.u64(object.wrapping_add(DATA))?;
        for index in 0..count {
            each(self.memory.u64(begin.wrapping_add(index * 8))?);
        }
        Ok(())
    }

    /// Whether an array lies in memory as it is read here: the type of its elements is a `numpy.dtype`, or inherits from it.
    fn is_array(&self, object: u64) -> Result<bool, Error> {
        let of = self.memory.u64(object.wrapping_add(DESCR))?;
        if of == 0 || !of.is_multiple_of(8) {
            return Ok(false);
        }
        let mut class = self.type_of(of)?;
        for _ in 0..MOST_BASES {
            if class == 0 {
                break;
            }
            if self.raw_name(class, &mut [0; LONGEST_NAME])? == b"numpy.dtype" {
                return Ok(true);
            }
            class = self.memory.u64(class.wrapping_add(BASE))?;
        }
        Ok(false)
    }
}
