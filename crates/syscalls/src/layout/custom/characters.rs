//! Characters as C writes them. Used by `plain`, `console` and `video`.

/// A character between single quotes, as C has it.
pub fn quoted_character(byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => format!("'\\{}'", byte as char),
        b' '..=b'~' => format!("'{}'", byte as char),
        byte => format!("'\\x{byte:02x}'"),
    }
}

/// The same, with C's letters for what moves the cursor.
pub fn escaped_character(byte: u8) -> String {
    match byte {
        b'\n' => "'\\n'".into(),
        b'\t' => "'\\t'".into(),
        b'\r' => "'\\r'".into(),
        11 => "'\\v'".into(),
        12 => "'\\f'".into(),
        byte => quoted_character(byte),
    }
}
