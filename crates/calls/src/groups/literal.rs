//! Finds the statement among the arguments of a call of a function of the script's language. Used by `groups`.

use crate::event::Call;
use prototypes::capture::describe::{HEAD, is_text};

/// Returns the first text among the arguments of such a call, and whether it was cut.
pub(super) fn first_text(call: &Call) -> Option<(String, bool)> {
    let mut texts = call.captures.iter().filter(|(at, _)| is_text(*at));
    texts.find_map(|(_, bytes)| unquoted(&String::from_utf8_lossy(bytes.get(HEAD..)?)))
}

/// Returns the first literal in a text of values, as `vm` writes them: in quotes, with `\\`, `\"`, `\n`, `\r`, `\t` and `\x{1b}`
/// escaped, and three dots behind the quotes if it was cut.
fn unquoted(values: &str) -> Option<(String, bool)> {
    let (_, rest) = values.split_once('"')?;
    let mut text = String::new();
    let mut left = rest.chars();
    while let Some(c) = left.next() {
        match c {
            '"' => return Some((text, left.as_str().starts_with("..."))),
            '\\' => match left.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                // A control character counts as white space in a statement.
                Some('x') => {
                    left.by_ref().find(|c| *c == '}');
                    text.push(' ');
                }
                Some(c) => text.push(c),
                None => {}
            },
            c => text.push(c),
        }
    }
    Some((text, true))
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    #[test]
    fn the_first_literal_is_the_statement() {
        let found = |values: &str| unquoted(values).unwrap();
        let plain = |text: &str| (text.to_owned(), false);
        assert_eq!(found(r#"mysqli#1, "SELECT 1", "x""#), plain("SELECT 1"));
        let escaped = r#""SELECT \"a\", '\\'\n\x{1b}b""#;
        assert_eq!(found(escaped), plain("SELECT \"a\", '\\'\n b"));
        assert_eq!(found(r#""SELECT 1"..., 2"#), ("SELECT 1".to_owned(), true));
        assert_eq!(found(r#""SELECT 1"#), ("SELECT 1".to_owned(), true));
        assert_eq!(unquoted("mysqli#1, 7"), None);
    }
}
