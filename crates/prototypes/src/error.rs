//! What is wrong with a line, and where.

use std::fmt;
use std::sync::Arc;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another character was due.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A name that is no type.
    #[error("unknown type `{0}`")]
    UnknownType(String),
    /// A type name that stands for two types.
    #[error("`{0}` is already defined")]
    Redefined(String),
    /// An announced struct turned out to be something else.
    #[error("`{0}` was announced as a struct and must be one")]
    NotAStruct(String),
    /// A struct whose members are not known yet, not behind a pointer.
    #[error("`{0}` is only announced here: its size is not known, a pointer to it can be used")]
    Incomplete(String),
    /// `struct;` anywhere else.
    #[error("a struct is announced only as `typedef NAME = struct;`")]
    Announced,
    /// A number too big, or negative where it cannot be.
    #[error("the number is out of range")]
    Range,
    /// An expression that is none.
    #[error("unknown length `{0}`: a number, argN, eltN, retval, zero or zero(N)")]
    UnknownLength(String),
    /// A second `format`.
    #[error("only one `format` per function")]
    SecondFormat,
    /// `format` that is not an argument.
    #[error("`format` can only be an argument")]
    FormatElsewhere,
    /// `enum[T]` of something that is no whole number.
    #[error("an enum needs an integer type")]
    EnumOf,
    /// `string(T)` of something that has no characters.
    #[error("a string is made of `char*`, `array(char, …)` or of wider integers")]
    StringOf,
    /// A lens of ours with a word we do not know.
    #[error("unknown VM value `{0}`")]
    UnknownWord(String),
    /// `import` of a file that was not found.
    #[error("`{0}.conf` was not found")]
    NotFound(String),
    /// Types in types in types.
    #[error("nested too deeply")]
    Depth,
    /// Something after the end; ltrace ignores it.
    #[error("ignored what follows")]
    Trailing,
    /// Anything but a single `void`; ltrace takes it for a hidden `int`.
    #[error("a `void` argument is taken for `hide(int)`")]
    VoidArgument,
}

impl Problem {
    /// ltrace goes on after these, and so do we.
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
    /// Counted from 1.
    pub line: usize,
    /// Counted in characters from 1.
    pub column: usize,
    /// The line as it stands there.
    pub text: Box<str>,
    /// What is wrong.
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

/// Longer lines are shown around the place.
const SHOWN: usize = 100;

/// The line and a caret below its `column`-th character.
pub(crate) fn caret(out: &mut fmt::Formatter<'_>, text: &str, column: usize) -> fmt::Result {
    let from = column.saturating_sub(SHOWN / 2 + 1);
    let from = if text.chars().count() <= SHOWN {
        0
    } else {
        from
    };
    let shown = text.chars().skip(from).take(SHOWN);
    // One column a character: a tab or a control character would move the caret away.
    let shown: String = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let dots = if from > 0 { "…" } else { "" };
    writeln!(out, "    {dots}{}", shown.trim_end())?;
    let before = column - 1 - from + dots.chars().count();
    write!(out, "    {:before$}^", "")
}
