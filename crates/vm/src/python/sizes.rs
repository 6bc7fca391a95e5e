//! How many bytes objects take, as `sys.getsizeof` says it for builtin types (`__sizeof__` in `Objects/*.c`), read and not called.
//!
//! What lies before an object (its `PyGC_Head`, since 3.11 two words of a managed dict) and beside it (the table of a dict, list or set,
//! values of attributes) is counted. What objects of a few other classes made in C allocate is in [`extra_sizes`](super::extra_sizes); of the rest
//! (buffers of files, what extensions allocate) it is not known: they count with `tp_basicsize` and their items.

use super::attributes::{INLINE_VALUES, MANAGED_DICT};
use super::collector::{GC_HEAD, HAVE_GC};
use super::dict::{KEYS, USED, VALUES};
use super::kind::{Kind, Sort};
use super::layout::{Attributes, Handlers, Own};
use super::object::{BYTES, HEAP_TYPE, OB_SIZE};
use super::{Error, Python, Version};
use crate::Memory;

/// `allocated` of a list, `ob_alloc` of a bytearray (since 3.15 that of a bytes object with its head and the 0 behind it), `fill`, `used`,
/// `mask`, `table`, `smalltable` of a set.
const ALLOCATED: u64 = 32;
const BYTEARRAY_ALLOCATED: u64 = 24;
const SET_USED: u64 = 24;
const SET_MASK: u64 = 32;
const SET_TABLE: u64 = 40;
const SET_SMALL: u64 = 64;
const SET_ENTRY: u64 = 16;
/// `sizeof(digit)`, and where digits begin; `tp_basicsize` of `bool` has one more.
const DIGIT: u64 = 4;
const DIGITS: u64 = 24;
/// `co_stacksize` (3.9 and 3.10); since 3.11 it lies so many bytes before `co_nlocalsplus`.
const STACK_SIZE: u64 = 32;
const STACK_SIZE_BEFORE: u64 = 8;
/// From `utf8_length` to `utf8` in `PyCompactUnicodeObject`, which begins with a `PyASCIIObject`.
const UTF8: u64 = 8;
/// `Py_TPFLAGS_MANAGED_WEAKREF`, since 3.12: it lies beside the dict.
const MANAGED_WEAKREF: u64 = 1 << 3;
/// `tp_basicsize` of no object is larger, nor what one of varying size adds.
const LARGEST: u64 = 1 << 46;

/// How large an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the object itself, and of what is counted before and beside it.
    pub bytes: u64,
    /// Bytes of a text, elements of a list, entries of a dict or set.
    pub length: Option<u64>,
    /// For how many of what `length` counts there is room; `None` where that cannot differ.
    pub capacity: Option<u64>,
}

impl<M: Memory> Python<'_, M> {
    /// Returns the size of an object.
    pub fn size(&self, object: u64, kind: &Kind) -> Result<Size, Error> {
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        let basic = kind.basic.min(LARGEST);
        let plain = |more: u64, length: Option<u64>| Size {
            bytes: basic.saturating_add(more.min(LARGEST)),
            length,
            capacity: None,
        };
        let mut size = match kind.sort {
            Sort::Int => {
                let digits = self.int(object)?.digits;
                // `int___sizeof___impl`; 0 has a digit since 3.11.
                let least = u64::from(self.facts.version() >= Version::new(3, 11, 0));
                let head = if kind.flags & HEAP_TYPE == 0 {
                    DIGITS
                } else {
                    basic
                };
                Size {
                    bytes: head + digits.max(least).min(LARGEST) * DIGIT,
                    ..Size::default()
                }
            }
            Sort::Str => self.size_of_text(object)?,
            Sort::Bytes => plain(word(OB_SIZE)?, Some(word(OB_SIZE)?)),
            Sort::ByteArray => {
                let room = word(BYTEARRAY_ALLOCATED)?;
                let is_object = self.facts.version() >= Version::new(3, 15, 0) && room != 0;
                let head = if is_object { BYTES + 1 } else { 0 };
                Size {
                    capacity: Some(room),
                    ..plain(room.saturating_add(head), Some(word(OB_SIZE)?))
                }
            }
            Sort::List => Size {
                capacity: Some(word(ALLOCATED)?),
                ..plain(word(ALLOCATED)?.saturating_mul(8), Some(word(OB_SIZE)?))
            },
            Sort::Tuple => plain(word(OB_SIZE)?.saturating_mul(8), Some(word(OB_SIZE)?)),
            Sort::Dict => {
                let (table, room) = self.size_of_table(object)?;
                Size {
                    capacity: Some(room),
                    ..plain(table, Some(word(USED)?))
                }
            }
            Sort::Set => {
                let slots = word(SET_MASK)?.saturating_add(1);
                let small = word(SET_TABLE)? == object.wrapping_add(SET_SMALL);
                Size {
                    capacity: Some(slots),
                    ..plain(
                        if small {
                            0
                        } else {
                            slots.saturating_mul(SET_ENTRY)
                        },
                        Some(word(SET_USED)?),
                    )
                }
            }
            Sort::Type => {
                let keys = match self.flags(object)? & HEAP_TYPE {
                    0 => 0,
                    _ => self.shared_keys(object)?,
                };
                let table = if keys == 0 {
                    0
                } else {
                    self.size_of_keys(keys)?.0
                };
                plain(table, None)
            }
            Sort::Code => plain(word(OB_SIZE)?.saturating_mul(kind.item), None),
            Sort::Generator | Sort::Frame => plain(self.size_of_frame(object, kind)?, None),
            _ if kind.item != 0 => {
                plain(word(OB_SIZE)?.min(1 << 32).saturating_mul(kind.item), None)
            }
            _ => plain(0, None),
        };
        size.bytes = size.bytes.saturating_add(self.size_before(object, kind)?);
        size.bytes = size
            .bytes
            .saturating_add(self.size_of_values(object, kind)?);
        Ok(size)
    }

    /// Returns the bytes before an object that `sys.getsizeof` counts (`_PyType_PreHeaderSize`, `_PySys_GetSizeOf`).
    fn size_before(&self, object: u64, kind: &Kind) -> Result<u64, Error> {
        if kind.flags & HAVE_GC == 0 || !self.is_collected(object, kind.class)? {
            return Ok(0);
        }
        let managed = match self.layout.attributes {
            Attributes::Dict => 0,
            Attributes::Beside => MANAGED_DICT,
            Attributes::Tagged | Attributes::Inline(_) => MANAGED_DICT | MANAGED_WEAKREF,
        };
        Ok(GC_HEAD + if kind.flags & managed != 0 { 16 } else { 0 })
    }

    /// The values of attributes that lie beside or behind an object (`new_values`, `_PyInlineValuesSize`, `pycore_dict.h`).
    fn size_of_values(&self, object: u64, kind: &Kind) -> Result<u64, Error> {
        let is_inline = matches!(self.layout.attributes, Attributes::Inline(_));
        if kind.flags & HEAP_TYPE == 0 || is_inline && kind.flags & INLINE_VALUES == 0 {
            return Ok(0);
        }
        let (_, values) = self.dict_and_values(object, kind.class)?;
        let keys = self.shared_keys(kind.class)?;
        if keys == 0 || values == 0 && !is_inline {
            return Ok(0);
        }
        let room = self.shared_room(keys)?;
        let rounded = |bytes: u64| bytes.next_multiple_of(8);
        Ok(if is_inline {
            rounded(room) + (room + 1) * 8
        } else {
            rounded(room + 2) + room * 8
        })
    }

    /// Returns the size of a str as its `__sizeof__` computes it (`unicode_sizeof`, `Objects/unicodeobject.c`).
    fn size_of_text(&self, object: u64) -> Result<Size, Error> {
        let text = self.text_unchecked(object)?;
        let layout = &self.layout.text;
        let bytes = text.len.min(LARGEST) * u64::from(text.width);
        let head = match text.address.wrapping_sub(object) {
            near if near == layout.ascii || near == layout.compact => near,
            _ => layout.compact + 8,
        };
        let mut whole = head + bytes + u64::from(text.width);
        if head != layout.ascii {
            let length = layout.ascii;
            let copy = self.memory.u64(object.wrapping_add(length + UTF8))?;
            if copy != 0 && copy != text.address {
                whole += self.memory.u64(object.wrapping_add(length))?.min(LARGEST) + 1;
            }
        }
        Ok(Size {
            bytes: whole,
            length: Some(bytes),
            capacity: None,
        })
    }

    /// The table of a dict and its room (`_PyDict_SizeOf`): one that it shares is its class's.
    fn size_of_table(&self, dict: u64) -> Result<(u64, u64), Error> {
        let keys = self.memory.u64(dict.wrapping_add(KEYS))?;
        let values = self.memory.u64(dict.wrapping_add(VALUES))?;
        let (table, room) = self.size_of_keys(keys)?;
        let mut bytes = 0;
        if values != 0 {
            let room = if self.layout.dict.compact {
                self.shared_room(keys)?
            } else {
                room
            };
            bytes += room * 8;
        }
        // How often the table is used; those of empty dicts all share one.
        if self.memory.u64(keys)? == 1 {
            bytes += table;
        }
        Ok((bytes, room))
    }

    /// Bytes that an object's frame adds (`gen_sizeof` since 3.11, `frame_sizeof`).
    fn size_of_frame(&self, object: u64, kind: &Kind) -> Result<u64, Error> {
        let is_object = self.layout.frame.own == Own::Object;
        if kind.sort == Sort::Generator && is_object {
            return Ok(0);
        }
        let (frame, code) = match kind.sort {
            Sort::Frame => self.frame_of_object(object)?,
            _ => self.frame_of_generator(object)?,
        };
        // The frame of a function that still runs is its thread's.
        let own = object..object.wrapping_add(kind.basic).saturating_add(8);
        if !own.contains(&frame) || self.check_code(code).is_err() {
            return Ok(0);
        }
        let variables = self.each_variable(code, &mut |_, _| {})?;
        let at = match self.layout.frame.handlers {
            Handlers::Table { locals, .. } => locals - STACK_SIZE_BEFORE,
            Handlers::Blocks { .. } => STACK_SIZE,
        };
        let stack = u64::from(self.memory.u32(code.wrapping_add(at))?);
        Ok((variables + stack.min(1 << 16)) * 8)
    }
}
