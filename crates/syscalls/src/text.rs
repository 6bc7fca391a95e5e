//! Strings as strace escapes them (`string_quote` in its util.c): `"a\n\177\0"`. Used by `writer`, `forms::network`,
//! `layout::custom::addresses` and others.

use crate::call::Hex;

/// Appends bytes between quotes.
pub fn quoted(bytes: &[u8], hex: Hex, out: &mut Vec<u8>) {
    out.push(b'"');
    escaped(bytes, hex, out);
    out.push(b'"');
}

/// Appends bytes with escapes, without quotes.
pub fn escaped(bytes: &[u8], hex: Hex, out: &mut Vec<u8>) {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | 9..=13);
    let in_hex = match hex {
        Hex::Never | Hex::Characters => false,
        Hex::NotText => !bytes.iter().all(is_text),
        Hex::Always => true,
    };
    if in_hex {
        for byte in bytes {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
        return;
    }
    let is_itself = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut index = 0;
    while index < bytes.len() {
        // Most of a text stands for itself.
        let run = bytes[index..]
            .iter()
            .take_while(|byte| is_itself(byte))
            .count();
        out.extend_from_slice(&bytes[index..index + run]);
        index += run;
        let Some(byte) = bytes.get(index) else {
            return;
        };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            11 => out.extend_from_slice(b"\\v"),
            12 => out.extend_from_slice(b"\\f"),
            byte if hex == Hex::Characters => {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            byte => {
                // As few digits as keep a digit that follows apart.
                let next = bytes.get(index + 1);
                let digits = next.is_some_and(|next| matches!(next, b'0'..=b'7'));
                let text = if digits {
                    format!("\\{byte:03o}")
                } else {
                    format!("\\{byte:o}")
                };
                out.extend_from_slice(text.as_bytes());
            }
        }
        index += 1;
    }
}

/// Appends bytes with escapes, between angle brackets of the caller's: those in them are escaped, too.
pub fn bracketed(bytes: &[u8], hex: Hex, out: &mut Vec<u8>) {
    let from = out.len();
    escaped(bytes, hex, out);
    if out[from..].iter().any(|byte| matches!(byte, b'<' | b'>')) {
        let text = out.split_off(from);
        for (index, byte) in text.iter().enumerate() {
            let digits = text
                .get(index + 1)
                .is_some_and(|next| matches!(next, b'0'..=b'7'));
            match (byte, digits) {
                (b'<', true) => out.extend_from_slice(b"\\074"),
                (b'<', false) => out.extend_from_slice(b"\\74"),
                (b'>', true) => out.extend_from_slice(b"\\076"),
                (b'>', false) => out.extend_from_slice(b"\\76"),
                (byte, _) => out.push(*byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_as_strace_does() {
        let shown = |bytes: &[u8], hex| {
            let mut out = Vec::new();
            quoted(bytes, hex, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(b"a\"\\\n\0z", Hex::Never), r#""a\"\\\n\0z""#);
        assert_eq!(shown(b"\x001\x7fx\xff", Hex::Never), r#""\0001\177x\377""#);
        assert_eq!(shown(b"plain\n", Hex::NotText), r#""plain\n""#);
        assert_eq!(shown(b"\x7f", Hex::NotText), r#""\x7f""#);
        assert_eq!(shown(b"a\x7f", Hex::Characters), r#""a\x7f""#);
        assert_eq!(shown(b"ab", Hex::Always), r#""\x61\x62""#);
    }
}
