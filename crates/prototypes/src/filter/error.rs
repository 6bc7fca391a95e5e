//! What can be wrong with a filter. Used by `filter` and `glob`, and by `lancet::commands::calls::args`.

use std::fmt;

use vm::Language;

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// `/…` has no closing slash.
    #[error("the regular expression has no closing `/`")]
    Unclosed,
    /// `[…` has no closing bracket.
    #[error("the `[` has no closing `]`")]
    Bracket,
    /// A backslash stands at the end.
    #[error("nothing follows the backslash")]
    Backslash,
    /// The regular expression is wrong, with the message of its parser.
    #[error("not a regular expression: {0}")]
    Regex(String),
    /// The filter is empty.
    #[error("an empty filter: SYMBOL, @LIBRARY or SYMBOL@LIBRARY")]
    Empty,
    /// A language's prefix is followed by nothing.
    #[error("no name follows: {}", examples())]
    Nameless,
    /// A sign is followed by no rule.
    #[error("nothing follows the sign")]
    Sign,
}

/// A problem in a filter. `Display` is one block with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The filter as it was given.
    pub text: Box<str>,
    /// The column, counted in characters from 1.
    pub column: usize,
    /// What is wrong at that column.
    pub wrong: Wrong,
}

impl std::error::Error for FilterError {}

impl fmt::Display for FilterError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "filter, column {}: {}", self.column, self.wrong)?;
        crate::error::caret(out, &self.text, self.column)
    }
}

/// Returns examples of how functions are named in each language.
fn examples() -> String {
    let all = Language::ALL.iter();
    let examples: Vec<&str> = all.map(|one| one.description().examples).collect();
    examples.join(", ")
}
