//! What the variables of a sub are called. Used by `size`, and by `languages::perl::snapshot::walk`.
//!
//! ```text
//!   CV ─ body ─ padlist ──▶ │ names │ values, depth 1 │ values, depth 2 │ …
//!                              │
//!                              └▶ PADNAMELIST ──▶ │ 0 │ "$self" │ "%cache" │ 0, a temporary value │ …
//! ```

use super::super::name::CODE_FLAGS;
use super::super::{Error, Perl, Text};
use super::arenas::Sv;
use crate::Memory;

/// `xpadnl_fill`, `xpadnl_alloc` and `xpadnl_max` in `struct padnamelist`, whose size this is.
const FILL: u64 = 0;
const ARRAY: u64 = 8;
const MAX: u64 = 16;
const LIST: u64 = 40;
/// `xpadn_pv` in `struct padname`.
const TEXT: u64 = 0;

/// `CVf_CLONED` of `cv.h`: the sub is a closure, made of another that has its code.
pub(super) const CLONED: u32 = 0x40;

/// Variables of one sub, at most.
const MOST: u64 = 1 << 20;

/// The names of a sub's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadNames {
    array: u64,
    count: u64,
}

impl<M: Memory> Perl<'_, M> {
    /// Whether a sub has this flag.
    pub(super) fn code_has(&self, code: &Sv, flag: u32) -> Result<bool, Error> {
        let flags = self.memory.u32(code.body.wrapping_add(CODE_FLAGS))?;
        Ok(flags & flag != 0)
    }

    /// Returns the names of the variables of a sub written in Perl, which are at the same places as the values in its pads. At
    /// most `most` can be there.
    pub fn pad_names(&self, code: &Sv, most: u64) -> Result<Option<PadNames>, Error> {
        let Some((pads, _)) = self.pads(code, most)? else {
            return Ok(None);
        };
        match self.memory.u64(pads)? {
            0 => Ok(None),
            list => self.names_of(list, most).map(Some),
        }
    }

    fn names_of(&self, list: u64, most: u64) -> Result<PadNames, Error> {
        let count = self.memory.u64(list.wrapping_add(FILL))?.wrapping_add(1);
        if count > most.min(MOST) {
            return Err(Error::garbled("list of variables", list));
        }
        Ok(PadNames {
            array: self.memory.u64(list.wrapping_add(ARRAY))?,
            count,
        })
    }

    /// Returns the name of the variable at a place of the pad, with its sigil; `None` of a temporary value.
    pub fn pad_name(&self, names: &PadNames, index: u64) -> Result<Option<Text>, Error> {
        if index >= names.count || names.array == 0 {
            return Ok(None);
        }
        let name = self.memory.u64(names.array.wrapping_add(index * 8))?;
        if name == 0 {
            return Ok(None);
        }
        let text = self.memory.u64(name.wrapping_add(TEXT))?;
        let length = self.memory.u8(name.wrapping_add(self.length_at()))?;
        Ok((text != 0 && length != 0).then_some(Text {
            address: text,
            len: length.into(),
            latin1: false,
        }))
    }

    /// `xpadn_len`: a byte, behind which the flags are the last member.
    fn length_at(&self) -> u64 {
        self.layout.pad_name - 8
    }

    /// Bytes of the names of a sub's variables.
    pub(super) fn name_bytes(&self, list: u64, most: u64) -> Result<u64, Error> {
        if list == 0 {
            return Ok(0);
        }
        let names = self.names_of(list, most)?;
        let room = self.memory.u64(list.wrapping_add(MAX))?.wrapping_add(1);
        let mut bytes = LIST + room.min(MOST) * 8;
        for index in 0..names.count {
            if let Some(text) = self.pad_name(&names, index)? {
                bytes += self.layout.pad_name + text.len + 1;
            }
        }
        Ok(bytes)
    }
}
