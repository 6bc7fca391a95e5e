//! The guest's own strings, made safe to print.

use std::borrow::Cow;
use std::fmt::Write;

use analysis::Row;

/// The text with everything that could act on a terminal or break a line written out: control
/// characters as `\x1b`, characters that turn the writing direction as `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\x{:02x}", c as u32);
            }
            c if acts(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// The last `width` characters, with a mark where the front was cut: of `file:line:Type` the end
/// tells more.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width || width == 0 {
        return Cow::Borrowed(text);
    }
    let tail: String = text.chars().skip(length - width + 1).collect();
    Cow::Owned(format!("…{tail}"))
}

/// What a row is called in a table.
pub fn label(row: &Row) -> String {
    named(&row.key, row.before)
}

/// What a key is called, with a mark on objects from before we came.
pub(crate) fn named(key: &analysis::Key, before: bool) -> String {
    let name = key.to_string();
    let name = printable(&name);
    if before {
        format!("{name} {BEFORE}")
    } else {
        name.into_owned()
    }
}

/// The mark of objects nobody saw being made.
pub const BEFORE: &str = "(before lancet)";

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(printable("app.rb:1:String"), "app.rb:1:String");
        assert_eq!(
            printable("a\x1b[2Jb\nc\u{202e}d"),
            "a\\x1b[2Jb\\nc\\u{202e}d"
        );
        assert_eq!(printable("größe/é.rb"), "größe/é.rb");
    }

    #[test]
    fn the_end_is_kept() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdef", 4), "…def");
        assert_eq!(shortened("größe", 3), "…ße");
    }
}
