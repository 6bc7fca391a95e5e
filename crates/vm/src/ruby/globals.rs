//! Global variables: `rb_global_tbl` (`variable.c`), a static that no symbol leads to.
//!
//! ```text
//!   rb_global_tbl ─▶ rb_id_table: serial number ─▶ rb_global_entry        var @0, id @8
//!                                                   └─▶ rb_global_variable   counter, block_trace, data @8, getter …
//! ```
//!
//! It is recognised by what is in it: each item leads to an entry with the same ID as its key, and the variables that every Ruby has are
//! among them. `data` is the value, or for a variable of C code the address of that; which it is, is decided by
//! what is wanted. Alike in v2_7_4 to v4.0.5.

use super::{Error, IdTable, Ruby};
use crate::Memory;

const ENTRY_ID: u64 = 8;
const VARIABLE_DATA: u64 = 8;
/// `capa` and `num` of `struct rb_id_table`.
const CAPACITY: u64 = 0;
const COUNT: u64 = 4;
/// Numbers of global variables that are believed: every Ruby has more than the lower one, and no program so many as the upper one.
const COUNTS: core::ops::Range<u32> = 16..1 << 16;
/// A variable that every Ruby has.
const KNOWN: &[u8] = b"$stdout";

impl<M: Memory> Ruby<'_, M> {
    /// Returns whether this may be the table of global variables, by its first words.
    pub fn may_be_globals(&self, table: u64) -> bool {
        let words = [CAPACITY, COUNT].map(|at| self.memory.u32(table.wrapping_add(at)));
        let [Ok(capacity), Ok(count)] = words else {
            return false;
        };
        capacity.is_power_of_two() && COUNTS.contains(&count) && count <= capacity
    }

    /// Returns whether a table that may be that of global variables is: each item leads to an entry with its own ID, and `$stdout` is among them.
    pub fn are_globals(&self, table: u64) -> Result<bool, Error> {
        let mut known = false;
        for item in IdTable::new(self.memory, table)? {
            let (serial, entry) = item?;
            let id = self.memory.u64(entry.wrapping_add(ENTRY_ID))?;
            if self.serial(id) != serial {
                return Ok(false);
            }
            known = known || self.is_id(id, KNOWN);
        }
        Ok(known)
    }

    /// Calls `each` with the ID of each global variable and the two words of which one is its value.
    pub fn globals(&self, table: u64, each: &mut dyn FnMut(u64, [u64; 2])) -> Result<(), Error> {
        for item in IdTable::new(self.memory, table)? {
            let (_, entry) = item?;
            let id = self.memory.u64(entry.wrapping_add(ENTRY_ID))?;
            let variable = self.memory.u64(entry)?;
            let data = self.memory.u64(variable.wrapping_add(VARIABLE_DATA))?;
            each(id, [data, self.memory.u64(data).unwrap_or(0)]);
        }
        Ok(())
    }
}
