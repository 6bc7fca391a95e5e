//! Objects around a C structure: `struct RTypedData` and `struct RData` (`include/ruby/internal/core/rtypeddata.h`, `rdata.h`; 2.7:
//! `include/ruby/ruby.h`).
//!
//! ```text
//!   0       8       16      24           32
//!   │ flags │ klass │ type  │ typed_flag │ data   RTypedData
//!   │ flags │ klass │ dmark │ dfree      │ data   RData
//! ```
//!
//! `typed_flag` is 1 for an `RTypedData`, since 3.3 also 3, which means that the structure lies in the slot (`TYPED_DATA_EMBEDDED`);
//! 3.0 to 3.2 have 1 alone. No function lies at such an address.

use super::object::Type;
use super::{Error, Ruby};
use crate::Memory;

const TYPE: u64 = 16;
const TYPED: u64 = 24;

impl<M: Memory> Ruby<'_, M> {
    /// Returns the `rb_data_type_t` of an object of [`Type::Data`] and the address of its name (`wrap_struct_name`, a C string);
    /// `None` if it has none.
    pub fn data_type(&self, object: u64) -> Result<Option<(u64, u64)>, Error> {
        if Type::of(self.flags(object)?) != Type::Data {
            return Err(Error::garbled("object of a C type", object));
        }
        let typed = self.memory.u64(object.wrapping_add(TYPED))?;
        if !matches!(typed, 1 | 3) {
            return Ok(None);
        }
        let of = self.memory.u64(object.wrapping_add(TYPE))?;
        Ok(Some((of, self.memory.u64(of)?)))
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
