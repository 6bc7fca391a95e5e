//! Texts of a process, so that they are no Markdown where they stand. Used by `markdown`, `cells` and `table`.

use crate::text::printable;

/// A text as a code span: what it holds is no Markdown there. The span ends with more backticks than the text has anywhere.
pub fn code(text: &str) -> String {
    let text = printable(text);
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // One space on both sides is not part of what is shown.
    let is_at = |c| text.starts_with(c) || text.ends_with(c);
    let room = if is_at('`') || is_at(' ') { " " } else { "" };
    format!("{fence}{room}{text}{room}{fence}")
}

/// A sentence, of which words that are no plain ones stand in code spans.
pub fn prose(text: &str) -> String {
    let special = |c: char| {
        matches!(
            c,
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '@' | '#' | '|' | '~' | '&' | '!'
        )
    };
    let is_link = |word: &str| {
        let word = word.to_ascii_lowercase();
        word.contains("://") || word.contains("www.") || word.contains("mailto:")
    };
    let text = printable(text);
    let words = text
        .split(' ')
        .map(|word| match word.contains(special) || is_link(word) {
            true => code(word),
            false => word.to_owned(),
        });
    words.collect::<Vec<_>>().join(" ")
}

/// The line of a table. A `|` ends a cell within a code span too; behind a backslash not even a second one would keep it from that.
pub fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.replace("\\|", "\\\\x7c").replace('|', "\\|"))
        .collect();
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_of_a_text_end_no_span() {
        for count in 1..=5 {
            let inner = "`".repeat(count);
            let fence = "`".repeat(count + 1);
            let text = format!("a{inner}<img src=x>@me`b");
            assert_eq!(code(&text), format!("{fence}{text}{fence}"));
            let text = format!("{inner}<img src=x>@me{inner}");
            assert_eq!(code(&text), format!("{fence} {text} {fence}"));
            let word = format!("{inner}@me");
            assert_eq!(
                prose(&format!("a {word} b")),
                format!("a {fence} {word} {fence} b")
            );
        }
        assert_eq!(code(" a"), "`  a `");
        assert_eq!(code(""), "");
    }

    #[test]
    fn links_are_no_links_and_plain_words_are_plain() {
        assert_eq!(
            prose("see http://x.y or WWW.x.y of app.rb:12"),
            "see `http://x.y` or `WWW.x.y` of app.rb:12"
        );
    }

    #[test]
    fn a_bar_is_escaped_in_tables_alone() {
        assert_eq!(code("a|b"), "`a|b`");
        assert_eq!(
            row(&[code("a|b"), code("c\\|d")]),
            "| `a\\|b` | `c\\\\x7cd` |"
        );
    }
}
