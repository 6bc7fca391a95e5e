//! Objects around a C structure: `struct RTypedData` and `struct RData` (`include/ruby/internal/core/rtypeddata.h`, `rdata.h`; 2.7:
//! `include/ruby/ruby.h`). Used by `function`, `thread` and `fiber`.
//!
//! ```text
//!   0       8       16           24           32
//!   │ flags │ klass │ type       │ typed_flag │ data   RTypedData, up to 3.4
//!   │ flags │ klass │ fields_obj │ type       │ data   RTypedData, since 4.0
//!   │ flags │ klass │ dmark      │ dfree      │ data   RData
//! ```
//!
//! Up to 3.4 `typed_flag` is 1 for an `RTypedData`, since 3.3 also 3, which means that the structure lies in the slot
//! (`TYPED_DATA_EMBEDDED`); 3.0 to 3.2 have 1 alone. No function lies at such an address. Since 4.0 a flag of the object says that it has
//! a type, and the lowest bit of `type` that the structure lies in the slot.

use super::layout::Typed;
use super::object::Type;
use super::{Error, Ruby};
use crate::{Fault, Memory};

const TYPE: u64 = 16;
const TYPED: u64 = 24;
const TYPE_SINCE_4_0: u64 = 24;
const DATA: u64 = 32;
/// The values of `typed_flag` of an `RTypedData`, up to 3.4: the structure lies elsewhere, or in the slot.
const ELSEWHERE: u64 = 1;
const IN_SLOT: u64 = 3;
/// `RUBY_TYPED_FL_IS_TYPED_DATA`, which is `RUBY_FL_USERPRIV0`, and `TYPED_DATA_EMBEDDED`, since 4.0.
const IS_TYPED: u64 = 1 << 6;
const EMBEDDED: u64 = 1;

/// `function.dfree` and `function.dsize` in `rb_data_type_t` (`rtypeddata.h`, the same from 2.7 to 4.0).
const TYPE_FREE: u64 = 16;
const TYPE_SIZE: u64 = 24;
/// `dfree` of an `RData`.
const FREE: u64 = 24;
/// `RUBY_DEFAULT_FREE` (`rdata.h`) and `RUBY_TYPED_DEFAULT_FREE`: the VM frees the structure, if it lies elsewhere, and nothing else.
const DEFAULT_FREE: u64 = u64::MAX;

impl<M: Memory> Ruby<'_, M> {
    /// Returns the `rb_data_type_t` of an object of [`Type::Data`] and the address of its name (`wrap_struct_name`, a C string);
    /// `None` if it has none.
    pub fn data_type(&self, object: u64) -> Result<Option<(u64, u64)>, Error> {
        let flags = self.flags(object)?;
        if Type::of(flags) != Type::Data {
            return Err(Error::garbled("object of a C type", object));
        }
        let is_typed = match self.layout.data {
            Typed::Flagged => {
                let typed = self.memory.u64(object.wrapping_add(TYPED))?;
                matches!(typed, ELSEWHERE | IN_SLOT)
            }
            Typed::InType => flags & IS_TYPED != 0,
        };
        if !is_typed {
            return Ok(None);
        }
        let of = self.type_word(object)?;
        Ok(Some((of, self.memory.u64(of)?)))
    }

    /// Whether an object of [`Type::Data`] frees memory when it dies, of which its type does not say how much there is: the type has no
    /// `dsize`, or there is no type. It has none if there is no structure, if nothing frees it, or if it lies in the slot and is all.
    pub fn is_unsized(&self, object: u64) -> Result<bool, Error> {
        let (free, size) = match self.data_type(object)? {
            None => (self.memory.u64(object.wrapping_add(FREE))?, 0),
            Some((of, _)) => {
                let function = |at: u64| self.memory.u64(of.wrapping_add(at));
                (function(TYPE_FREE)?, function(TYPE_SIZE)?)
            }
        };
        if free == 0 || size != 0 {
            return Ok(false);
        }
        if self.is_in_slot(object)? {
            return Ok(free != DEFAULT_FREE);
        }
        Ok(self.structure(object)? != 0)
    }

    /// Returns the word of an object of [`Type::Data`] that is its `rb_data_type_t`, if it has one.
    pub(super) fn type_word(&self, object: u64) -> Result<u64, Fault> {
        match self.layout.data {
            Typed::Flagged => self.memory.u64(object.wrapping_add(TYPE)),
            Typed::InType => {
                let word = self.memory.u64(object.wrapping_add(TYPE_SINCE_4_0))?;
                Ok(word & !EMBEDDED)
            }
        }
    }

    /// Returns the address of the C structure of an object of [`Type::Data`] (`RTYPEDDATA_GET_DATA`).
    pub fn structure(&self, object: u64) -> Result<u64, Fault> {
        let data = object.wrapping_add(DATA);
        if self.is_in_slot(object)? {
            Ok(data)
        } else {
            self.memory.u64(data)
        }
    }

    /// Whether that structure lies in the object's slot.
    fn is_in_slot(&self, object: u64) -> Result<bool, Fault> {
        let word = self.memory.u64(object.wrapping_add(TYPED))?;
        Ok(match self.layout.data {
            Typed::Flagged => word == IN_SLOT,
            Typed::InType => word & EMBEDDED != 0 && self.flags(object)? & IS_TYPED != 0,
        })
    }

    /// Copies a C string up to its zero or the end of `into`; returns how many bytes it has there.
    pub fn copy_c_text(&self, at: u64, into: &mut [u8]) -> Result<usize, Error> {
        for (index, place) in into.iter_mut().enumerate() {
            match self.memory.u8(at.wrapping_add(index as u64))? {
                0 => return Ok(index),
                byte => *place = byte,
            }
        }
        Ok(into.len())
    }
}
