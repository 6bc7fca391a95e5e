//! Conditions on calls: the expressions of `--where`. Used by the crates `calls` and `lancet`.
//!
//! ```text
//!   either  = both { "||" both }            both = one { "&&" one }          one = "!" one | "(" either ")" | test
//!   test    = subject relation value
//!   subject = ( "arg"N | "ret" ) [ ":" type ] | "time" | "line"      type = i8 u8 i16 u16 i32 u32 i64 u64
//!   relation= "==" "!=" "<" "<=" ">" ">=" | "~" "!~" "~*"           ~ holds   !~ does not hold   ~* whatever the case
//!   value   = NUMBER | nothing | DURATION | "TEXT"                  in a text \" \\ \n \t \xNN
//!   nothing = "null" | "nil" | "None" | "undef"
//! ```
//!
//! The prototype decides how an argument is read: `arg1 < 0` of an `unsigned` is never true, and `arg2 ~ "x"` of a
//! string with a length looks at so many bytes. Arguments of a function without a prototype are 64 bits with a sign.
//!
//! Values of a language VM are compared as the language has them: its numbers, its texts, its `nil`. Arguments of a
//! function that the VM calls are counted as in the language, without the receiver.
//!
//! `lines` has the conditions of `--at`, and says which lines may meet a condition: an index leaves out the others.
//! `read` parses an expression, `compile` makes words for crate `capture` of an expression and a prototype.

mod compile;
mod lines;
mod read;
mod values;

use std::fmt;

pub use compile::{Compiled, Unfit};
pub use lines::NoPlace;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Something else was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The name of the subject is unknown.
    #[error("`{0}` is none of arg1, arg2 …, ret, time, line")]
    Subject(String),
    /// Arguments are counted from 1.
    #[error("arguments are counted from 1 to 99")]
    Argument,
    /// The name of the type is unknown.
    #[error("`{0}` is none of i8, u8, i16, u16, i32, u32, i64, u64")]
    Type(String),
    /// The relation does not go with this value.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The text has no closing quote.
    #[error("the text has no closing `\"`")]
    Unclosed,
    /// The backslash is followed by a character that needs none.
    #[error("after a backslash only \\, \", n, t and xNN")]
    Escape,
    /// The text is longer than the longest that is searched for.
    #[error("a text that is looked for has at most 64 bytes")]
    Long,
    /// There are more than 32 different tests of lines.
    #[error("at most 32 tests of a line")]
    Lines,
    /// Brackets and `!` are nested too deep.
    #[error("nested too deeply")]
    Depth,
    /// The number is out of the range of all types.
    #[error("the number is out of range")]
    Range,
}

/// A flaw and its position. `Display` is one block with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The expression as it was given.
    pub text: Box<str>,
    /// The column, counted in characters from 1.
    pub column: usize,
    /// What is wrong at that column.
    pub flaw: Flaw,
}

impl std::error::Error for ConditionError {}

impl fmt::Display for ConditionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "condition, column {}: {}", self.column, self.flaw)?;
        crate::error::caret(out, &self.text, self.column)
    }
}

/// A parsed expression of `--where`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    expression: Expression,
    /// The texts that lines are searched for, in the order of their bits.
    lines: Vec<Sought>,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Number(Subject, Relation, Number),
    /// The text of the argument or of the returned value.
    Text(Subject, Sought),
    /// The duration of the call in nanoseconds.
    Time(Relation, u64),
    /// Index of the text that the line is searched for.
    Line(usize),
}

/// An argument or the returned value, and the type that it is read as.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Subject {
    /// Index of the argument, from 0; `None` is the returned value.
    argument: Option<usize>,
    cast: Option<capture::Width>,
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.argument {
            Some(number) => write!(out, "argument {}", number + 1),
            None => out.write_str("its result"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    /// A null pointer, or a VM's `nil`.
    Null,
    Whole(i128),
    Fraction(f64),
}

#[derive(Clone, Debug, PartialEq)]
struct Sought {
    how: capture::condition::How,
    bytes: Vec<u8>,
}

use capture::condition::Relation;

impl Condition {
    /// Parses the argument of `--where`.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        read::condition(text).map_err(|(at, flaw)| ConditionError {
            text: text.into(),
            column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
            flaw,
        })
    }
}
