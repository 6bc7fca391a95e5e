//! Code to file, line and name: `rb_iseq_t` and `struct rb_iseq_constant_body` (`vm_core.h`).
//!
//! The rule for lines is `rb_vm_get_sourceline` (`vm_backtrace.c`), alike in all seven versions once
//! their branches are followed to the end:
//!
//! * no `pc` (a frame that has not begun, or the empty frame the VM pushes to give the path of a `.so`
//!   while its `Init_` runs): the line on which the iseq begins, which is 0 for that empty frame;
//! * otherwise the line entry in force one word *before* `pc`, because a running frame's `pc` is past
//!   its instruction; at the very first word, that word itself;
//! * and if that says 0, again the line on which the iseq begins.

use super::object::{FLAGS, Type, is_code};
use super::string::Text;
use super::{Error, Ruby, succinct};
use crate::{Fault, Memory};

/// Offset of `body` in `rb_iseq_t`: the address of its `struct rb_iseq_constant_body`.
const BODY: u64 = 16;

/// In `struct rb_iseq_constant_body`: `iseq_size` (in words), `iseq_encoded`, `location`.
const SIZE: u64 = 4;
const ENCODED: u64 = 8;
const PATHS: u64 = 64;
const BASE_LABEL: u64 = 72;
const LABEL: u64 = 80;
const FIRST_LINE: u64 = 88;

/// From `insns_info.body` to `insns_info.size` and `insns_info.succ_index_table`.
const ENTRIES: u64 = 16;
const INDEX: u64 = 24;

impl<M: Memory> Ruby<'_, M> {
    /// Returns the line of `pc` in `iseq`, as `rb_tracearg_lineno` and `caller_locations` do.
    ///
    /// `pc` is what the frame holds, unchanged (see [`frames`](super::frames)).
    pub fn line(&self, iseq: u64, pc: u64) -> Result<u32, Error> {
        let body = self.body(iseq)?;
        let line = if pc == 0 {
            0
        } else {
            self.line_at(body, self.position(iseq, body, pc)?)?
        };
        if line == 0 {
            self.first_line_of(body)
        } else {
            Ok(line)
        }
    }

    /// Returns the line in force at word `position` of `iseq`, with no correction; 0 if there is none.
    pub fn line_at_position(&self, iseq: u64, position: u32) -> Result<u32, Error> {
        let body = self.body(iseq)?;
        self.line_at(body, position)
    }

    /// Returns the line on which `iseq` begins.
    pub fn first_line(&self, iseq: u64) -> Result<u32, Error> {
        let body = self.body(iseq)?;
        self.first_line_of(body)
    }

    /// Returns the path as given to `require` or `load`, which is `__FILE__`.
    pub fn path(&self, iseq: u64) -> Result<Text, Error> {
        let body = self.body(iseq)?;
        // `location.pathobj`: the path, or an Array of path and real path.
        let path = self.memory.u64(body.wrapping_add(PATHS))?;
        let flags = self.memory.u64(path.wrapping_add(FLAGS))?;
        if Type::of(flags) != Type::Array {
            return self.text(path);
        }
        let elements = self.elements(path)?.address;
        self.text(self.memory.u64(elements)?)
    }

    /// Returns the name with its kind: `block in each`. (3.4's backtraces put the class before it; the iseq does not
    /// know the class.)
    pub fn label(&self, iseq: u64) -> Result<Text, Error> {
        let body = self.body(iseq)?;
        self.text(self.memory.u64(body.wrapping_add(LABEL))?)
    }

    /// Returns the name of the method or class body around it: `each`.
    pub fn base_label(&self, iseq: u64) -> Result<Text, Error> {
        let body = self.body(iseq)?;
        self.text(self.memory.u64(body.wrapping_add(BASE_LABEL))?)
    }

    /// Returns a word that changes when the address of an iseq is used for another one: its body and the objects that
    /// hold its path and name, mixed. Three loads. It is no proof, but an address would have to be used again for each
    /// of the three.
    #[inline]
    pub fn witness(&self, iseq: u64) -> Result<u64, Fault> {
        let body = self.memory.u64(iseq.wrapping_add(BODY))?;
        let path = self.memory.u64(body.wrapping_add(PATHS))?;
        let label = self.memory.u64(body.wrapping_add(LABEL))?;
        Ok(body ^ path.rotate_left(21) ^ label.rotate_left(42))
    }

    /// Returns how many words of code `iseq` has.
    pub fn code_size(&self, iseq: u64) -> Result<u32, Error> {
        let body = self.body(iseq)?;
        Ok(self.memory.u32(body.wrapping_add(SIZE))?)
    }

    pub(super) fn body(&self, iseq: u64) -> Result<u64, Error> {
        let flags = self.memory.u64(iseq.wrapping_add(FLAGS))?;
        let body = self.memory.u64(iseq.wrapping_add(BODY))?;
        if !is_code(flags) || body == 0 {
            return Err(Error::garbled("iseq", iseq));
        }
        Ok(body)
    }

    /// Returns the index of the word whose line counts for `pc`.
    fn position(&self, iseq: u64, body: u64, pc: u64) -> Result<u32, Error> {
        let begin = self.memory.u64(body.wrapping_add(ENCODED))?;
        let size = u64::from(self.memory.u32(body.wrapping_add(SIZE))?);
        let words = pc.wrapping_sub(begin) / 8;
        // One more than the size: the extra word that the hook adds to a pc at the very end.
        if words > size + 1 {
            return Err(Error::garbled("pc of this iseq", iseq));
        }
        Ok(words.saturating_sub(1) as u32)
    }

    /// Returns whether `pc` is that of a frame which runs `iseq`: it is past its instruction.
    pub(super) fn is_within(&self, iseq: u64, pc: u64) -> Result<bool, Error> {
        let body = self.body(iseq)?;
        let begin = self.memory.u64(body.wrapping_add(ENCODED))?;
        let size = u64::from(self.memory.u32(body.wrapping_add(SIZE))?);
        let past = pc.wrapping_sub(begin);
        Ok(size != 0 && past.is_multiple_of(8) && past / 8 <= size)
    }

    /// Returns how many line entries `iseq` has, if as many begin in its code.
    pub(super) fn line_entries(&self, iseq: u64) -> Result<u32, Error> {
        let body = self.body(iseq)?;
        let info = body.wrapping_add(self.layout.iseq.insns_info);
        let (entries, count) = (
            self.memory.u64(info)?,
            self.memory.u32(info.wrapping_add(ENTRIES))?,
        );
        let last = self.memory.u32(body.wrapping_add(SIZE))?.saturating_sub(1);
        let begun = match count {
            0 | 1 => count,
            _ => {
                let table = self.memory.u64(info.wrapping_add(INDEX))?;
                succinct::rank(self.memory, table, last)?
            }
        };
        if begun != count || count != 0 && entries == 0 {
            return Err(Error::garbled("line table", iseq));
        }
        Ok(count)
    }

    fn line_at(&self, body: u64, position: u32) -> Result<u32, Error> {
        let info = body.wrapping_add(self.layout.iseq.insns_info);
        let entries = self.memory.u64(info)?;
        let index = match self.memory.u32(info.wrapping_add(ENTRIES))? {
            0 => return Ok(0),
            1 => 0,
            size => {
                let table = self.memory.u64(info.wrapping_add(INDEX))?;
                let rank = succinct::rank(self.memory, table, position)?;
                if rank == 0 || rank > size {
                    return Err(Error::garbled("line table", table));
                }
                rank - 1
            }
        };
        let entry = u64::from(index).wrapping_mul(self.layout.iseq.insn_entry);
        Ok(self.memory.u32(entries.wrapping_add(entry))?)
    }

    fn first_line_of(&self, body: u64) -> Result<u32, Error> {
        let at = body.wrapping_add(FIRST_LINE);
        Ok(if self.layout.iseq.first_line_is_fixnum {
            (self.memory.u64(at)? >> 1) as u32
        } else {
            self.memory.u32(at)?
        })
    }
}
