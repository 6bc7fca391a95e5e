//! How many bytes an object takes: its slot and what is allocated for it, as `rb_obj_memsize_of` computes it (`gc.c`; 3.4: also `gc/default/default.c`).
//!
//! For where that function cannot be called, a core file. Strings (`rb_str_memsize`, `string.c`), Arrays (`rb_ary_memsize`, `array.c`), Hashes
//! (`st_memsize`, `st.c`; `ar_table`, `hash.c`), Structs and plain objects are computed; of classes, compiled code and objects of C types the
//! slot alone is told.
//!
//! ```text
//!   st_table: entry_power @0, bin_power @1, size_ind @2 (u8) │ type @8 │ num_entries @16 │ bins @24 │ …    56 bytes
//! ```

use super::collection::{AR_TABLE, ARRAY_EMBEDDED, IS_ST};
use super::layout::Hashes;
use super::object::Type;
use super::references::MEMBERS_SHIFT;
use super::string::NOEMBED;
use super::table::ST_ENTRY;
use super::{Error, Ruby};
use crate::Memory;

/// `STR_NOFREE`: the bytes belong to the program's text.
const NOFREE: u64 = 1 << 30;
/// `as.heap.aux`: the capacity, or whose bytes or elements they are.
const STRING_CAPACITY: u64 = 32;
const ARRAY_CAPACITY: u64 = 24;
/// No String and no Array has room for so much; what is larger is an address.
const MOST: u64 = 1 << 36;
/// Bytes of a `struct st_table`, which up to 3.2 lies outside of the Hash's slot.
const ST_TABLE: u64 = 56;
const ST_BINS: u64 = 24;
/// `numiv` of a plain object to 3.1, `len` of a Struct.
const COUNT: u64 = 16;
const WORD: u64 = 8;

impl<M: Memory> Ruby<'_, M> {
    /// Returns how many bytes an object in a slot of so many bytes takes.
    pub fn size(&self, object: u64, slot: u64) -> Result<u64, Error> {
        let flags = self.flags(object)?;
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        let beside = match Type::of(flags) {
            Type::String if flags & (NOEMBED | NOFREE) == NOEMBED => {
                // With the zero behind the bytes.
                own(word(STRING_CAPACITY)?).map_or(0, |room| room + 1)
            }
            Type::Array if flags & ARRAY_EMBEDDED == 0 => {
                own(word(ARRAY_CAPACITY)?).map_or(0, |room| room * WORD)
            }
            Type::Hash => self.size_of_hash(object, flags)?,
            Type::Struct => match flags >> MEMBERS_SHIFT & self.members_mask() {
                0 => own(word(COUNT)?).unwrap_or(0) * WORD,
                _ => 0,
            },
            Type::Object if !self.has_variables_in_slot(flags) => {
                self.size_of_variables(object, flags)?
            }
            _ => 0,
        };
        Ok(slot.saturating_add(beside))
    }

    fn size_of_hash(&self, hash: u64, flags: u64) -> Result<u64, Error> {
        let in_slot = self.layout.collection.hash == Hashes::InSlot;
        let table = self.hash_table(hash)?;
        if flags & IS_ST == 0 {
            return Ok(if in_slot || table == 0 { 0 } else { AR_TABLE });
        }
        let byte = |at: u64| self.memory.u8(table.wrapping_add(at)).map(u32::from);
        let power = |by: u32| 1_u64.checked_shl(by).filter(|size| *size < MOST);
        let bins = match self.memory.u64(table.wrapping_add(ST_BINS))? {
            0 => 0,
            _ => power(byte(1)? + byte(2)?).unwrap_or(0),
        };
        let entries = power(byte(0)?).unwrap_or(0).saturating_mul(ST_ENTRY);
        Ok(bins + entries + if in_slot { 0 } else { ST_TABLE })
    }

    /// What the values of instance variables take that do not lie in the object. Since 3.2 there may be room for more than there are.
    fn size_of_variables(&self, object: u64, flags: u64) -> Result<u64, Error> {
        if !self.has_shapes() {
            let count = self.memory.u32(object.wrapping_add(COUNT))?;
            return Ok(u64::from(count) * WORD);
        }
        let mut count = 0;
        self.each_shaped(object, flags, &mut |_, _| count += 1)?;
        Ok(count * WORD)
    }
}

/// A number of elements or bytes; `None` for the address of an object to which they belong.
fn own(capacity: u64) -> Option<u64> {
    (capacity < MOST).then_some(capacity)
}
