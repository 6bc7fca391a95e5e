//! What `ObjectSpace.define_finalizer` has noted, for versions whose VM does not tell it among its roots.
//!
//! ```text
//!   finalizer_table ─▶ st_table: object ─▶ Array of what is called when the object dies
//! ```
//!
//! The objects in it are not kept alive by it; the Arrays are (`mark_finalizer_tbl`, `gc.c`; since 3.4 `gc/default/default.c`). An entry is
//! believed when its key is an object that has the flag of one with a finalizer, and its value is an Array.

use super::object::{Type, is_object};
use super::{Error, Ruby, StTable};
use crate::Memory;

/// `RUBY_FL_FINALIZE` (`fl_type.h`, in 2.7 `ruby/ruby.h`).
const FINALIZE: u64 = 1 << 7;

impl<M: Memory> Ruby<'_, M> {
    /// Calls `each` with the Array of each object that has finalizers, of at most `most` places of the table and for as long as `goes_on`,
    /// where the VM does not tell them. Returns whether that was the whole table.
    pub fn finalizers(
        &self,
        most: u64,
        goes_on: &dyn Fn() -> bool,
        each: &mut dyn FnMut(u64),
    ) -> Result<bool, Error> {
        let Some(at) = self.layout.heap.finalizers else {
            return Ok(true);
        };
        let table = self.memory.u64(self.facts.objspace().wrapping_add(at))?;
        if table == 0 {
            return Ok(true);
        }
        let mut entries = StTable::of_hash(self.memory, table, u64::MAX)?;
        let is_longer = entries.cut(most);
        for entry in entries {
            if !goes_on() {
                return Ok(false);
            }
            let (object, callbacks) = entry?;
            if self.has_finalizer(object) && self.is_array(callbacks) {
                each(callbacks);
            }
        }
        Ok(!is_longer)
    }

    fn has_finalizer(&self, object: u64) -> bool {
        let flags = self.flags(object).ok().filter(|_| is_object(object));
        flags.is_some_and(|flags| flags & FINALIZE != 0)
    }

    fn is_array(&self, object: u64) -> bool {
        is_object(object) && self.type_of(object) == Ok(Type::Array)
    }
}
