//! Characters as text, escaped as ltrace escapes them.

use std::fmt::Write;

/// Writes a byte of a narrow string.
pub(super) fn character(byte: u8, out: &mut String) {
    match byte {
        0 => out.push_str("\\0"),
        0x07 => out.push_str("\\a"),
        0x08 => out.push_str("\\b"),
        b'\t' => out.push_str("\\t"),
        b'\n' => out.push_str("\\n"),
        0x0b => out.push_str("\\v"),
        0x0c => out.push_str("\\f"),
        b'\r' => out.push_str("\\r"),
        b'\\' => out.push_str("\\\\"),
        b' '..=b'~' => out.push(char::from(byte)),
        _ => {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
}

/// Writes a wide character; false if the word is none.
pub(super) fn wide(word: u64, out: &mut String) -> bool {
    // A wint_t is an int: the upper half of the word is undefined.
    match char::from_u32(word as u32) {
        _ if word as u32 == u32::MAX => out.push_str("EOF"),
        Some(c) if (c as u32) < 0x80 => character(c as u8, out),
        // No text of a guest may move a terminal's cursor.
        Some(c) if c.is_control() || is_formatting(c) => {
            let _ = write!(out, "\\u{:04x}", c as u32);
        }
        Some(c) => out.push(c),
        None => return false,
    }
    true
}

/// Returns whether a character changes the direction of text or ends its line.
fn is_formatting(c: char) -> bool {
    matches!(c as u32, 0x200b..=0x200f | 0x2028..=0x202e | 0x2066..=0x2069 | 0xfeff)
}
