//! What Procs and methods refer to, and what else a slot may name: for where the VM's own mark functions cannot be called, a core file.
//!
//! ```text
//!   rb_proc_t     self @0 │ ep @8 │ code @16 │ type @24          struct rb_block (vm_core.h); code is an object unless the type is 2 or 3,
//!                                                                 which have the Symbol or Proc @0
//!   ep            … │ method entry @-16 │ block @-8 │ flags @0 │ environment @8        VM_ENV_DATA_INDEX_ENV
//!   method entry  flags │ class @8 │ definition @16 │ id @24 │ owner @32      rb_method_entry_t (method.h)
//! ```
//!
//! Alike in 2.7 to 4.0.

use super::function::{BLOCK_CODE, BLOCK_TYPE, BODY, DEFINITION};
use super::object::is_object;
use super::{Error, Ruby};
use crate::Memory;

/// `ep` of `struct rb_captured_block`; `VM_ENV_DATA_INDEX_ENV`; `VM_ENV_FLAG_ESCAPED`: the environment is an object.
const EP: u64 = 8;
const ENVIRONMENT: u64 = 8;
const ESCAPED: u64 = 4;
/// Values of `type` in `struct rb_block`: `block_type_symbol` and `block_type_proc`.
const NOT_CAPTURED: [u32; 2] = [2, 3];
/// Words behind flags and class that a slot of the smallest size has: `RVALUE`.
const WORDS: core::ops::Range<u64> = 2..5;

impl<M: Memory> Ruby<'_, M> {
    /// Calls `each` with what a Proc refers to.
    pub fn each_of_proc(&self, proc: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let block = self.structure(proc)?;
        let mut word = |at: u64| {
            let target = self.memory.u64(block.wrapping_add(at))?;
            if is_object(target) {
                each(target);
            }
            Ok::<(), Error>(())
        };
        word(0)?;
        let of = self.memory.u32(block.wrapping_add(BLOCK_TYPE))?;
        if NOT_CAPTURED.contains(&of) {
            return Ok(());
        }
        word(BLOCK_CODE)?;
        let ep = self.memory.u64(block.wrapping_add(EP))?;
        if ep != 0 && self.memory.u64(ep)? & ESCAPED != 0 {
            each(self.memory.u64(ep.wrapping_add(ENVIRONMENT))?);
        }
        Ok(())
    }

    /// Calls `each` with the words of a method's definition that may be its code, block or scope.
    pub fn each_of_method(&self, entry: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let definition = self.memory.u64(entry.wrapping_add(DEFINITION))?;
        for at in [BODY, BODY + 8] {
            each(self.memory.u64(definition.wrapping_add(at))?);
        }
        Ok(())
    }

    /// Calls `each` with the words of a slot that may be references, with `from_class` also that at which other objects have their class.
    pub fn each_word(
        &self,
        object: u64,
        from_class: bool,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let first = if from_class { 1 } else { WORDS.start };
        for word in first..WORDS.end {
            each(self.memory.u64(object.wrapping_add(word * 8))?);
        }
        Ok(())
    }
}
