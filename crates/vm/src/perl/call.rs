//! The arguments and results of an XSUB: values on Perl's stack, from above a mark to its top (`perlcall`, `dXSARGS` in
//! `XSUB.h`, `PUSHMARK` in `pp.h`). Used by `script`.
//!
//! ```text
//!   PL_stack_base ─▶ │ … │ mark │ argument │ argument │ ◀─ PL_stack_sp         the mark: *PL_markstack_ptr
//!                    │ … │ mark │ result   │ ◀─ PL_stack_sp                    when it has returned; the mark is popped
//! ```

use core::fmt::Write;

use super::interpreter::Interpreter;
use super::{Error, Perl};
use crate::{Fault, Memory};

/// A stack with more values is taken for garbage.
const MOST: u64 = 1 << 32;

impl<M: Memory> Perl<'_, M> {
    /// Returns the index in the stack below the arguments of a call that is about to be made. Kept until the call has
    /// returned, it says where its results begin.
    pub fn mark(&self, interpreter: &Interpreter) -> Result<u64, Fault> {
        let at = self.memory.u64(interpreter.markstack_ptr)?;
        Ok(self.memory.u32(at)?.into())
    }

    /// Returns the value at an index above a mark, from 0; `None` if there are not so many.
    pub fn above(
        &self,
        interpreter: &Interpreter,
        mark: u64,
        index: u64,
    ) -> Result<Option<u64>, Error> {
        let (base, count) = self.values_above(interpreter, mark)?;
        if index >= count {
            return Ok(None);
        }
        let at = base.wrapping_add((mark + 1 + index) * 8);
        Ok(Some(self.memory.u64(at)?))
    }

    /// Returns the address of the stack's first value, and how many values lie above a mark.
    fn values_above(&self, interpreter: &Interpreter, mark: u64) -> Result<(u64, u64), Error> {
        let base = self.memory.u64(interpreter.stack_base)?;
        let top = self.memory.u64(interpreter.stack_sp)?;
        let count = (top.wrapping_sub(base) / 8).checked_sub(mark);
        let count = count.filter(|count| *count < MOST);
        Ok((base, count.ok_or(Error::garbled("mark in the stack", top))?))
    }

    /// Writes the values above a mark as the items of a list, at most `most` of them and `limit` bytes of each text.
    pub fn write_above(
        &self,
        interpreter: &Interpreter,
        mark: u64,
        most: u64,
        limit: u64,
        out: &mut dyn Write,
    ) -> Result<u64, Error> {
        let (base, count) = self.values_above(interpreter, mark)?;
        for index in 0..count.min(most) {
            if index > 0 {
                out.write_str(", ")?;
            }
            let at = base.wrapping_add((mark + 1 + index) * 8);
            let sv = self.memory.u64(at)?;
            match self.write_value(sv, limit, out) {
                Err(Error::Write) => return Err(Error::Write),
                Err(_) => write!(out, "<? at {sv:#x}>")?,
                Ok(()) => {}
            }
        }
        if count > most {
            out.write_str(", …")?;
        }
        Ok(count)
    }
}
