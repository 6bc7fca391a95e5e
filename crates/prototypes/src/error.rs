//! Errors in files of prototypes, with their position. Used by `parse`, `condition` and others here, and by the crates
//! `calls` and `lancet`.

use std::fmt;
use std::sync::Arc;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another character was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The name is not that of a type.
    #[error("unknown type `{0}`")]
    UnknownType(String),
    /// The name of a type stands for two types.
    #[error("`{0}` is already defined")]
    Redefined(String),
    /// An announced struct was defined as another type.
    #[error("`{0}` was announced as a struct and must be one")]
    NotAStruct(String),
    /// A struct whose members are not known yet stands elsewhere than behind a pointer.
    #[error("`{0}` is only announced here: its size is not known, a pointer to it can be used")]
    Incomplete(String),
    /// `struct;` stands elsewhere than in a typedef.
    #[error("a struct is announced only as `typedef NAME = struct;`")]
    Announced,
    /// A number is too big, or negative where it cannot be.
    #[error("the number is out of range")]
    Range,
    /// An expression is not one of a length.
    #[error("unknown length `{0}`: a number, argN, eltN, retval, zero or zero(N)")]
    UnknownLength(String),
    /// There is a second `format`.
    #[error("only one `format` per function")]
    SecondFormat,
    /// `format` is not an argument.
    #[error("`format` can only be an argument")]
    FormatElsewhere,
    /// The type in `enum[T]` is not a whole number.
    #[error("an enum needs an integer type")]
    EnumOf,
    /// The type in `string(T)` has no characters.
    #[error("a string is made of `char*`, `array(char, …)` or of wider integers")]
    StringOf,
    /// The word of a VM is unknown.
    #[error("unknown VM value `{0}`")]
    UnknownWord(String),
    /// The file of an `import` was not found.
    #[error("`{0}.conf` was not found")]
    NotFound(String),
    /// Types are nested too deep.
    #[error("nested too deeply")]
    Depth,
    /// Something follows the end of the line; ltrace ignores it.
    #[error("ignored what follows")]
    Trailing,
    /// `void` is not the only argument; ltrace takes it for a hidden `int`.
    #[error("a `void` argument is taken for `hide(int)`")]
    VoidArgument,
}

impl Problem {
    /// Returns whether the line counts in spite of the problem, as it does for ltrace.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        matches!(self, Self::Trailing | Self::VoidArgument)
    }
}

/// A problem in a file. `Display` is one block, the line itself with a caret under it:
///
/// ```text
/// my.conf:3:10: unknown type `flaot`
///     int sin(flaot);
///             ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted in characters from 1.
    pub column: usize,
    /// The text of the line.
    pub text: Box<str>,
    /// What is wrong at that column.
    pub problem: Problem,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file, line, column, ..
        } = self;
        writeln!(out, "{file}:{line}:{column}: {}", self.problem)?;
        caret(out, &self.text, *column)
    }
}

/// Characters of a line that are shown around the column, at most.
const SHOWN: usize = 100;

/// Writes the line and a caret below its `column`-th character.
pub(crate) fn caret(out: &mut fmt::Formatter<'_>, text: &str, column: usize) -> fmt::Result {
    let from = column.saturating_sub(SHOWN / 2 + 1);
    let from = if text.chars().count() <= SHOWN {
        0
    } else {
        from
    };
    let shown = text.chars().skip(from).take(SHOWN);
    // One column for each character: a tab or a control character would move the caret away.
    let shown: String = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let dots = if from > 0 { "…" } else { "" };
    writeln!(out, "    {dots}{}", shown.trim_end())?;
    let before = column - 1 - from + dots.chars().count();
    write!(out, "    {:before$}^", "")
}
