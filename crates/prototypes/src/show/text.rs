//! Characters as text, escaped as ltrace escapes them. Used by `string` and `value`.

use std::io::Write;

/// Writes a byte of a narrow string.
pub(super) fn character(byte: u8, out: &mut Vec<u8>) {
    let escape = match byte {
        0 => b'0',
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        b'\\' => b'\\',
        b' '..=b'~' => return out.push(byte),
        _ => {
            // Writing to a Vec does not fail.
            let _ = write!(out, "\\{byte:03o}");
            return;
        }
    };
    out.extend_from_slice(&[b'\\', escape]);
}

/// Writes the bytes of a narrow string.
pub(super) fn characters(mut bytes: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    while let Some(first) = bytes.iter().position(|byte| !is_plain(byte)) {
        out.extend_from_slice(&bytes[..first]);
        character(bytes[first], out);
        bytes = &bytes[first + 1..];
    }
    out.extend_from_slice(bytes);
}

/// Writes a wide character; false if the word is none.
pub(super) fn wide(word: u64, out: &mut Vec<u8>) -> bool {
    // A wint_t is an int: the upper half of the word is undefined.
    match char::from_u32(word as u32) {
        _ if word as u32 == u32::MAX => out.extend_from_slice(b"EOF"),
        Some(c) if (c as u32) < 0x80 => character(c as u8, out),
        // No text of a guest may move a terminal's cursor.
        Some(c) if c.is_control() || is_formatting(c) => {
            let _ = write!(out, "\\u{:04x}", c as u32);
        }
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => return false,
    }
    true
}

/// Returns whether a character changes the direction of text or ends its line.
fn is_formatting(c: char) -> bool {
    matches!(c as u32, 0x200b..=0x200f | 0x2028..=0x202e | 0x2066..=0x2069 | 0xfeff)
}
