//! JSON for programs: one object a line.
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

/// Appends a string, as [`line`] writes it: with nothing but a look at each byte where it is plain ASCII.
pub fn string(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.as_bytes().iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to a Vec does not fail.
        let _ = text.serialize(&mut Serializer::with_formatter(out, Safe));
    }
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
        for text in [text, "", "plain", "\"", "\\", "\u{7f}", "größe"] {
            let (mut alone, mut expected) = (Vec::new(), Vec::new());
            string(&mut alone, text);
            line(&mut expected, &text).unwrap();
            assert_eq!([&alone[..], b"\n"].concat(), expected);
        }
    }
}
