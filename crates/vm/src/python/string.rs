//! Strings: `PyASCIIObject` and its kin (`Include/cpython/unicodeobject.h`). Used by `code`, `dict` and others here,
//! and by the crates `agent` and `languages`.
//!
//! ```text
//!   0          8      16       24     32      40      48            56         72
//!   ├──────────┼──────┼────────┼──────┼───────┼───────┼─────────────┼──────────┤
//!   │ refcount │ type │ length │ hash │ state │ characters …                        ASCII, since 3.12
//!   │ refcount │ type │ length │ hash │ state │ wstr  │ characters …                ASCII, to 3.11
//!   │ …                               │ state │ utf8_length │ utf8 │ characters …   others, since 3.12
//!   │ …                               │ state │ wstr │ utf8_length │ utf8 │ wstr_length │ characters …
//! ```
//!
//! `state` tells how wide a character is (1, 2 or 4 bytes: Latin-1, UCS-2, UCS-4), whether all are ASCII, and
//! whether they follow (*compact*) or are pointed at, as in subclasses of `str`.

use core::fmt::Write;

use super::object::Builtin;
use super::{Error, Python};
use crate::Memory;

/// Offsets of `length` and `state` in `PyASCIIObject`.
pub(super) const LENGTH: u64 = 16;
const STATE: u64 = 32;

/// In `state`, behind the bits of `interned`: the three of `kind`, and those of `compact` and `ascii`.
const KIND: u32 = 7;
const COMPACT: u32 = 1 << 3;
const ASCII: u32 = 1 << 4;

/// The characters of a str: their address, number and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first character.
    pub address: u64,
    /// Number of characters, as the object notes it.
    pub len: u64,
    /// Bytes of a character: 1, 2 or 4.
    pub width: u8,
}

/// The result of [`Python::copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are in the buffer now.
    pub len: usize,
    /// Whether the string has more characters than were copied.
    pub truncated: bool,
}

impl<M: Memory> Python<'_, M> {
    /// Returns the characters of a str.
    pub fn text(&self, string: u64) -> Result<Text, Error> {
        if !self.is(string, Builtin::Str)? {
            return Err(Error::garbled("str", string));
        }
        self.text_unchecked(string)
    }

    /// Returns whether a str is interned: names in source code are, and what `sys.intern` and `setattr` were given.
    pub fn is_interned(&self, string: u64) -> Result<bool, Error> {
        let interned = (1 << self.layout.text.interned) - 1;
        Ok(self.is(string, Builtin::Str)?
            && self.memory.u32(self.field(string, STATE))? & interned != 0)
    }

    pub(super) fn text_unchecked(&self, string: u64) -> Result<Text, Error> {
        let len = self.memory.u64(self.field(string, LENGTH))?;
        let layout = &self.layout.text;
        let state = self.memory.u32(self.field(string, STATE))? >> layout.interned;
        let width = match state & KIND {
            width @ (1 | 2 | 4) => width as u8,
            // 0, up to 3.11: made by the deprecated wchar_t functions and not used as a str yet.
            _ => return Err(Error::garbled("str", string)),
        };
        let address = match (state & COMPACT != 0, state & ASCII != 0) {
            (true, true) => string.wrapping_add(layout.ascii),
            (true, false) => string.wrapping_add(layout.compact),
            (false, _) => self.memory.u64(string.wrapping_add(layout.compact))?,
        };
        Ok(Text {
            address,
            len,
            width,
        })
    }

    /// Calls `each` with at most `limit` characters of `text`, until it returns false.
    pub(super) fn characters(
        &self,
        text: Text,
        limit: u64,
        each: &mut dyn FnMut(u32) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let width = usize::from(text.width);
        let mut buffer = [0; 256];
        let (mut done, len) = (0, text.len.min(limit));
        while done < len {
            let count = (len - done).min((buffer.len() / width) as u64) as usize;
            let bytes = &mut buffer[..count * width];
            let at = text.address.wrapping_add(done.wrapping_mul(width as u64));
            self.memory.read(at, bytes)?;
            for character in bytes.chunks_exact(width) {
                let code = match *character {
                    [a] => u32::from(a),
                    [a, b] => u32::from(u16::from_le_bytes([a, b])),
                    [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                    _ => unreachable!("a width is 1, 2 or 4"),
                };
                if !each(code)? {
                    return Ok(());
                }
            }
            done += count as u64;
        }
        Ok(())
    }

    /// Copies as much of `text` as fits, whole characters as UTF-8; a lone surrogate becomes U+FFFD.
    pub fn copy(&self, text: Text, into: &mut [u8]) -> Result<Copied, Error> {
        let (mut len, mut characters) = (0, 0);
        self.characters(text, into.len() as u64, &mut |code| {
            let mut utf8 = [0; 4];
            let bytes = char::from_u32(code)
                .unwrap_or(char::REPLACEMENT_CHARACTER)
                .encode_utf8(&mut utf8)
                .as_bytes();
            let Some(room) = into.get_mut(len..len + bytes.len()) else {
                return Ok(false);
            };
            room.copy_from_slice(bytes);
            len += bytes.len();
            characters += 1;
            Ok(true)
        })?;
        Ok(Copied {
            len,
            truncated: characters < text.len,
        })
    }

    /// Writes at most `limit` characters of `text`, a lone surrogate as U+FFFD.
    pub fn write_text(&self, text: Text, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        self.characters(text, limit, &mut |code| {
            out.write_char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))?;
            Ok(true)
        })
    }

    /// Returns whether the characters of `text` from `from` on are exactly `name`.
    pub(super) fn ends_as(&self, text: Text, from: u64, name: &str) -> Result<bool, Error> {
        let mut expected = name.chars();
        let mut same = true;
        let rest = Text {
            address: text
                .address
                .wrapping_add(from.wrapping_mul(u64::from(text.width))),
            len: text.len.saturating_sub(from),
            width: text.width,
        };
        if rest.len > name.len() as u64 {
            return Ok(false);
        }
        self.characters(rest, u64::MAX, &mut |code| {
            same = expected.next().map(u32::from) == Some(code);
            Ok(same)
        })?;
        Ok(same && expected.next().is_none())
    }
}
