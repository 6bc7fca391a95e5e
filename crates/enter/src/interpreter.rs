//! A VM that evaluates texts, as an interface: each language's folder implements it. Used by `languages`,
//! `languages::entry` and others here, and by crate `patch`.

use process::error::Result;
use std::fmt::Debug;

/// A process whose VM evaluates texts. Dropping this value leaves it.
pub trait Interpreter: Debug {
    /// Evaluates a text and returns the resulting string.
    ///
    /// # Errors
    /// The text is too long, or the process did not reach a safe point within 10 s; the text is not evaluated later.
    fn evaluate(&mut self, text: &str) -> Result<String>;

    /// Leaves the process: its agent becomes quiet.
    ///
    /// # Errors
    /// The guest's memory could not be written, or its thread could not be entered.
    fn leave(self: Box<Self>) -> Result<()>;
}
