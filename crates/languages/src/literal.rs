//! Writes texts as literals of script languages. Used by `patch` and `python::patch`.

/// A text as a literal in double quotes that Ruby and Python read as this text, in ASCII.
///
/// Both read `\n` and `\uXXXX` alike (Ruby: doc/syntax/literals.rdoc; Python: Language Reference 2.4.1). For characters
/// above U+FFFF each has an escape of its own, which `beyond` writes.
pub fn literal(text: &str, beyond: fn(u32) -> String) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            // `#{`, `#$` and `#@` have a meaning in Ruby.
            '"' | '\\' | '#' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            '\n' => out.push_str("\\n"),
            ' '..='~' => out.push(character),
            other if u32::from(other) <= 0xffff => {
                out.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => out.push_str(&beyond(other.into())),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn nothing_of_a_text_has_a_meaning() {
        let text = "a\"b\\c#{d}\n\té😀";
        let ruby = literal(text, |code| format!("\\u{{{code:x}}}"));
        assert_eq!(ruby, r#""a\u0022b\u005cc\u0023{d}\n\u0009\u00e9\u{1f600}""#);
    }
}
