//! Text of a guest, in pieces: copied out, written, compared. Every length is bounded by the caller. Used by
//! `perl::name`, `php::value` and others here, and by crate `languages`.

use core::fmt::{self, Write};

use crate::{Fault, Memory};

/// Bytes that are handled at a time.
const PIECE: usize = 256;

/// The location and encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes, as the VM notes it.
    pub len: u64,
    /// Whether each byte is a character of its own, as in Perl's text without the UTF-8 flag. Such text is
    /// often UTF-8 that Perl was not told about, so it is written as UTF-8 as far as it is that, and the
    /// rest as Latin-1. Otherwise it is UTF-8, or whatever the program put there.
    pub latin1: bool,
}

impl Text {
    /// A text of bytes, which are UTF-8 or whatever the program put there.
    pub(crate) const fn bytes(address: u64, len: u64) -> Text {
        Text {
            address,
            len,
            latin1: false,
        }
    }
}

/// Writes at most `limit` bytes of `text`; what is not UTF-8 as U+FFFD.
pub(crate) fn write<M: Memory, E: From<Fault> + From<fmt::Error>>(
    memory: &M,
    text: Text,
    limit: u64,
    out: &mut dyn Write,
) -> Result<(), E> {
    each_char(memory, text, limit, |c| Ok(out.write_char(c)?))
}

/// Writes at most `limit` bytes of `text` as a literal: in quotes, escaped so that it is one line and
/// nothing a terminal obeys, and with three dots after the quotes where it is cut.
pub(crate) fn write_quoted<M: Memory, E: From<Fault> + From<fmt::Error>>(
    memory: &M,
    text: Text,
    limit: u64,
    out: &mut dyn Write,
) -> Result<(), E> {
    out.write_char('"')?;
    each_char::<M, E>(memory, text, limit, |c| {
        match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            c if c.is_control() => write!(out, "\\x{{{:x}}}", u32::from(c)),
            c => out.write_char(c),
        }?;
        Ok(())
    })?;
    out.write_str(if text.len > limit { "\"..." } else { "\"" })?;
    Ok(())
}

fn each_char<M: Memory, E: From<Fault>>(
    memory: &M,
    text: Text,
    limit: u64,
    mut each: impl FnMut(char) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = [0; PIECE];
    let mut done = 0;
    let len = text.len.min(limit);
    while done < len {
        let rest = len - done;
        let bytes = &mut buffer[..usize::try_from(rest).unwrap_or(PIECE).min(PIECE)];
        memory.read(text.address.wrapping_add(done), bytes)?;
        // A character may continue in the next piece: leave its first bytes for then.
        let piece = match core::str::from_utf8(bytes) {
            Err(error)
                if error.error_len().is_none()
                    && error.valid_up_to() > 0
                    && rest > PIECE as u64 =>
            {
                &bytes[..error.valid_up_to()]
            }
            _ => bytes,
        };
        done += piece.len() as u64;
        for chunk in piece.utf8_chunks() {
            for c in chunk.valid().chars() {
                each(c)?;
            }
            match chunk.invalid() {
                [] => {}
                invalid if text.latin1 => invalid
                    .iter()
                    .try_for_each(|&byte| each(char::from(byte)))?,
                _ => each(char::REPLACEMENT_CHARACTER)?,
            }
        }
    }
    Ok(())
}

/// Returns whether `text` has exactly these bytes.
pub(crate) fn is<M: Memory>(memory: &M, text: Text, expected: &[u8]) -> Result<bool, Fault> {
    if text.len != expected.len() as u64 {
        return Ok(false);
    }
    let mut buffer = [0; PIECE];
    let mut at = text.address;
    for piece in expected.chunks(PIECE) {
        let found = &mut buffer[..piece.len()];
        memory.read(at, found)?;
        if found != piece {
            return Ok(false);
        }
        at = at.wrapping_add(piece.len() as u64);
    }
    Ok(true)
}

/// Returns the text up to a NUL, or up to `limit` bytes. It is read in aligned words, which never reach into a page
/// that the text does not.
pub(crate) fn c_string<M: Memory>(memory: &M, at: u64, limit: u64) -> Result<Text, Fault> {
    let mut word_at = at & !7;
    let mut len = 0;
    let mut skip = (at - word_at) as usize;
    while len < limit {
        let bytes = memory.u64(word_at)?.to_le_bytes();
        if let Some(end) = bytes[skip..].iter().position(|&byte| byte == 0) {
            return Ok(Text::bytes(at, (len + end as u64).min(limit)));
        }
        len += (8 - skip) as u64;
        skip = 0;
        word_at = word_at.wrapping_add(8);
    }
    Ok(Text::bytes(at, limit))
}
