//! Objects: `PyObject` (`Include/object.h`), and ints (`Include/cpython/longintrepr.h`). Used by `generator`, `show`,
//! `class` and others.
//!
//! ```text
//!   0          8         16          24
//!   ├──────────┼─────────┼───────────┼──────────────────
//!   │ refcount │ type    │ size      │ …              objects of varying size
//!   │ refcount │ type    │ ±digits   │ digits …       int to 3.11: the sign of the size is its sign
//!   │ refcount │ type    │ tag       │ digits …       int since 3.12: digits << 3 | 0 plus, 1 zero, 2 minus
//! ```
//!
//! In a free-threaded build there are 16 bytes more before the type: [`Python::field`].

use super::{Error, Python};
use crate::Memory;

/// Offsets of `ob_type` in `PyObject` and of `ob_size` in `PyVarObject`.
const OB_TYPE: u64 = 8;
pub(super) const OB_SIZE: u64 = 16;
/// Offset of `ob_digit` in `PyLongObject`, since 3.12 in its `long_value`.
const DIGITS: u64 = 24;
/// `tp_basicsize`, `tp_flags` and, among these, `Py_TPFLAGS_HEAPTYPE`.
pub(super) const BASIC_SIZE: u64 = 32;
pub(super) const TP_FLAGS: u64 = 168;
pub(super) const HEAP_TYPE: u64 = 1 << 9;
/// Offset of `ob_sval` in `PyBytesObject`: the bytes themselves.
pub(super) const BYTES: u64 = 32;
/// The bits beside the address in a tagged reference, which the value stack and frames have since 3.14
/// (`pycore_stackref.h`); objects are aligned to 16.
pub(super) const TAG: u64 = 3;
/// Bits of an int that one digit holds, `PyLong_SHIFT`.
pub(super) const DIGIT_BITS: u32 = 30;

/// The bits of `tp_flags` that tell whether a type is one of these or inherits from it
/// (`Py_TPFLAGS_LONG_SUBCLASS` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Int,
    List,
    Tuple,
    Bytes,
    Str,
    Dict,
    Type,
}

impl Builtin {
    pub(super) const ALL: [Builtin; 7] = [
        Builtin::Int,
        Builtin::List,
        Builtin::Tuple,
        Builtin::Bytes,
        Builtin::Str,
        Builtin::Dict,
        Builtin::Type,
    ];

    pub(super) const fn flag(self) -> u64 {
        1 << match self {
            Builtin::Int => 24,
            Builtin::List => 25,
            Builtin::Tuple => 26,
            Builtin::Bytes => 27,
            Builtin::Str => 28,
            Builtin::Dict => 29,
            Builtin::Type => 31,
        }
    }
}

/// The digits of a Python int.
#[derive(Clone, Copy, Debug)]
pub(super) struct Int {
    pub negative: bool,
    /// Number of digits of 30 bits, the lowest first.
    pub digits: u64,
    /// Address of the first digit.
    pub at: u64,
}

impl<M: Memory> Python<'_, M> {
    /// Returns the address of a field of an object that is behind its reference count; `offset` is that of a build with the GIL. Offsets in
    /// [`Layout`](super::Layout) are those of the process and need no such correction.
    #[inline(always)]
    pub(super) fn field(&self, object: u64, offset: u64) -> u64 {
        object.wrapping_add(self.layout.head).wrapping_add(offset)
    }

    /// Returns the type of an object.
    pub fn type_of(&self, object: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(self.field(object, OB_TYPE))?)
    }

    /// Returns the reference count of an object; `None` if it is immortal (since 3.12: `_Py_IsImmortal`, `refcount.h`), so that nobody
    /// counts.
    pub fn reference_count(&self, object: u64) -> Result<Option<u64>, Error> {
        let count = self.memory.u64(object)?;
        if !self.layout.int_has_tag {
            return Ok(Some(count));
        }
        let count = count as u32;
        Ok((count.cast_signed() >= 0).then_some(u64::from(count)))
    }

    /// Returns whether a class was made at run time: in Python, or by `PyType_FromSpec`.
    pub fn is_heap_type(&self, class: u64) -> Result<bool, Error> {
        Ok(self.flags(class)? & HEAP_TYPE != 0)
    }

    /// Returns `tp_flags` of an object's type.
    pub(super) fn flags_of(&self, object: u64) -> Result<u64, Error> {
        self.flags(self.type_of(object)?)
    }

    pub(super) fn flags(&self, class: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(self.field(class, TP_FLAGS))?)
    }

    pub(super) fn is(&self, object: u64, builtin: Builtin) -> Result<bool, Error> {
        Ok(self.flags_of(object)? & builtin.flag() != 0)
    }

    /// Returns the digits of an int.
    pub(super) fn int(&self, object: u64) -> Result<Int, Error> {
        if !self.is(object, Builtin::Int)? {
            return Err(Error::garbled("int", object));
        }
        let word = self.memory.u64(self.field(object, OB_SIZE))?;
        let (digits, negative) = if self.layout.int_has_tag {
            (word >> 3, word & 3 == 2)
        } else {
            ((word as i64).unsigned_abs(), (word as i64) < 0)
        };
        Ok(Int {
            negative,
            digits,
            at: self.field(object, DIGITS),
        })
    }

    /// Returns an int that fits into 64 bits.
    pub(super) fn small_int(&self, object: u64) -> Result<i64, Error> {
        let int = self.int(object)?;
        let mut value = 0_i64;
        if int.digits > 2 {
            return Err(Error::garbled("small int", object));
        }
        for index in (0..int.digits).rev() {
            let digit = self.memory.u32(int.at.wrapping_add(index * 4))?;
            value = value << DIGIT_BITS | i64::from(digit & ((1 << DIGIT_BITS) - 1));
        }
        Ok(if int.negative { -value } else { value })
    }
}
