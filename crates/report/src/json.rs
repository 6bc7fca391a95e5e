//! JSON for programs: one object a line. Used by `calls::json`, `syscalls::json` and others here, and by crate
//! `lancet`.
//!
//! The strings of a guest are written whole, but so that nothing in them acts on a terminal: serde_json escapes the ASCII
//! control characters, and [`Safe`] the others that `text::printable` writes out. A reader of JSON gets the same
//! strings back.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::text::acts;

/// Writes one value as one line.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn line(out: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Safe))?;
    out.write_all(b"\n")
}

/// Appends a string in UTF-8, as [`line()`] writes it.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let from = out.len();
    out.extend_from_slice(text);
    end_string(out, from);
}

/// Whether a byte stands in a string as it is: printable ASCII but the quotation mark and the backslash.
const STAYS: [bool; 256] = {
    let mut stays = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        stays[byte as usize] = !matches!(byte, b'"' | b'\\');
        byte += 1;
    }
    stays
};

/// Ends a string whose text stands from `from` on, behind a quotation mark: with nothing but a look at each byte where all
/// of them stay. Of a short text, such as a number, one after the other; of a long one many at once.
pub fn end_string(out: &mut Vec<u8>, from: usize) {
    const SHORT: usize = 16;
    let text = &out[from..];
    let stays = |byte: &u8| byte.wrapping_sub(b' ') <= b'~' - b' ' && !matches!(byte, b'"' | b'\\');
    let all = match text.len() {
        ..SHORT => text.iter().all(|byte| STAYS[usize::from(*byte)]),
        _ => text.iter().fold(true, |all, byte| all & stays(byte)),
    };
    if all {
        return out.push(b'"');
    }
    let text = out.split_off(from);
    out.pop();
    let text = String::from_utf8_lossy(&text);
    // Writing to a Vec does not fail.
    let _ = text.serialize(&mut Serializer::with_formatter(out, Safe));
}

/// JSON without white space, in which characters that act on a terminal are escaped as `\u202e`.
pub struct Safe;

impl Formatter for Safe {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| acts(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_string_acts_on_a_terminal() {
        let text = "a\x1b]0;x\x07\u{9b}2J\u{202e}\u{2028}\nä\u{1f600}";
        let mut out = Vec::new();
        line(&mut out, &text).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(
            written,
            "\"a\\u001b]0;x\\u0007\\u009b2J\\u202e\\u2028\\nä\u{1f600}\"\n"
        );
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        let long = "long enough to be looked at in pieces";
        let quoted = format!("{long}\"");
        let wide = format!("größe {long}");
        for text in [
            text, "", "plain", "\"", "\\", "\u{7f}", "größe", long, &quoted, &wide,
        ] {
            let (mut alone, mut expected) = (Vec::new(), Vec::new());
            string(&mut alone, text.as_bytes());
            line(&mut expected, &text).unwrap();
            assert_eq!([&alone[..], b"\n"].concat(), expected);
        }
    }
}
