//! Strings: `struct RString` (`include/ruby/internal/core/rstring.h`; 2.7: `include/ruby/ruby.h`). Used by `iseq`,
//! `locks` and others here, and by the crates `languages` and `agent`.
//!
//! ```text
//!   0       8       16              24
//!   ├───────┼───────┼───────────────┼──────────
//!   │ flags │ klass │ len           │ ptr ────▶ bytes       NOEMBED set
//!   │ flags │ klass │ bytes …                               embedded, to 3.1 (len in flags)
//!   │ flags │ klass │ len           │ bytes …               embedded, since 3.2
//! ```

use core::fmt::Write;

use super::layout::Strings;
use super::object::{FLAGS, Type};
use super::{Error, Ruby};
use crate::Memory;

/// In the flags of a String: `RSTRING_NOEMBED`, its bytes lie outside of its slot.
pub(super) const NOEMBED: u64 = 1 << 13;

/// `len` and `ptr`, or the embedded bytes.
const LENGTH: u64 = 16;
const POINTER: u64 = 24;
const EMBEDDED_TO_3_1: u64 = 16;
const EMBEDDED: u64 = 24;

/// Bytes of the largest of the five slot sizes; no embedded string is longer.
const LARGEST_SLOT: u64 = 640;

/// The bytes of a String: their address and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes, as the object notes it.
    pub len: u64,
}

/// The result of [`Ruby::copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are in the buffer now.
    pub len: usize,
    /// Whether the string has more bytes than were copied.
    pub truncated: bool,
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the bytes of a String object.
    pub fn text(&self, string: u64) -> Result<Text, Error> {
        let flags = self.memory.u64(string.wrapping_add(FLAGS))?;
        if Type::of(flags) != Type::String {
            return Err(Error::garbled("String", string));
        }
        let text = if flags & NOEMBED != 0 {
            return Ok(Text {
                address: self.memory.u64(string.wrapping_add(POINTER))?,
                len: self.memory.u64(string.wrapping_add(LENGTH))?,
            });
        } else if self.layout.string == Strings::LengthInFlags {
            Text {
                address: string.wrapping_add(EMBEDDED_TO_3_1),
                len: flags >> 14 & 0x1f,
            }
        } else {
            Text {
                address: string.wrapping_add(EMBEDDED),
                len: self.memory.u64(string.wrapping_add(LENGTH))?,
            }
        };
        if text.len > LARGEST_SLOT {
            return Err(Error::garbled("embedded String", string));
        }
        Ok(text)
    }

    /// Copies as much of `text` as fits.
    pub fn copy(&self, text: Text, into: &mut [u8]) -> Result<Copied, Error> {
        let len = usize::try_from(text.len)
            .unwrap_or(usize::MAX)
            .min(into.len());
        self.memory.read(text.address, &mut into[..len])?;
        Ok(Copied {
            len,
            truncated: (len as u64) < text.len,
        })
    }

    /// Writes at most `limit` bytes of `text`, what is not UTF-8 as U+FFFD.
    pub fn write_text(&self, text: Text, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        let mut buffer = [0; 256];
        let mut done = 0;
        let len = text.len.min(limit);
        while done < len {
            let rest = Text {
                address: text.address.wrapping_add(done),
                len: len - done,
            };
            let copied = self.copy(rest, &mut buffer)?;
            let bytes = &buffer[..copied.len];
            // A character may continue in the next piece: its first bytes are left for that one.
            let piece = match core::str::from_utf8(bytes) {
                Err(error) if error.error_len().is_none() && copied.truncated => {
                    &bytes[..error.valid_up_to()]
                }
                _ => bytes,
            };
            for chunk in piece.utf8_chunks() {
                out.write_str(chunk.valid())?;
                if !chunk.invalid().is_empty() {
                    out.write_char(char::REPLACEMENT_CHARACTER)?;
                }
            }
            done += piece.len() as u64;
        }
        Ok(())
    }
}
