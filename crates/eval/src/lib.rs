//! Evaluates texts in the script language of a running process, at a safe point of its VM and with the VM's lock. The VM itself
//! evaluates them, so its caches and compiled code remain valid.
//!
//! | module | what |
//! |---|---|
//! | `entered` | a process with an agent in it that its main thread calls: opened, copied, left |
//! | `python` | how a Python is entered, also to be copied; a Ruby is entered by [`births::Session`] |
//! | `literal` | texts as literals that all these languages read alike |
//!
//! A text is one expression that evaluates to a string of at most 64 KiB ([`wire::Script`]). It must rescue what it raises. The
//! process is stopped only to make the request; the text runs like code of the program.

#![forbid(unsafe_code)]

mod entered;
mod literal;
mod python;

pub use entered::{Entered, Reached};
pub use literal::literal;
pub use python::Python;

use births::Session;
use inject::Image;
use process::error::{Error, Result};
use vm::Language;

/// A process that evaluates texts. Dropping this value leaves it.
#[derive(Debug)]
pub enum Interpreter {
    /// A Ruby, 2.7 to 4.0.
    Ruby(Box<Session>),
    /// A Python, 3.9 to 3.15.
    Python(Box<Python>),
}

impl Interpreter {
    /// Opens a process whose script is in this language.
    ///
    /// # Errors
    /// It has no such VM, or cannot be opened.
    pub fn open(pid: i32, image: &Image, language: Language) -> Result<Self> {
        match language {
            Language::Ruby => {
                Session::open_for_evaluation(pid, image).map(|open| Self::Ruby(Box::new(open)))
            }
            Language::Python => Python::open(pid, image).map(|open| Self::Python(Box::new(open))),
            Language::Perl | Language::Php => Err(Error::NotAGuest {
                pid,
                reason: "only Ruby and Python are asked to evaluate something",
            }),
        }
    }

    /// Whether texts of this language can be evaluated.
    pub fn speaks(language: &Language) -> bool {
        matches!(language, Language::Ruby | Language::Python)
    }

    /// Evaluates a text and returns the resulting string.
    ///
    /// # Errors
    /// The text is too long, or the process did not reach a safe point within 10 s; the text is not evaluated later.
    pub fn evaluate(&mut self, text: &str) -> Result<String> {
        match self {
            Self::Ruby(ruby) => ruby.evaluate(text),
            Self::Python(python) => python.evaluate(text),
        }
    }

    /// Leaves the process: its agent becomes quiet.
    ///
    /// # Errors
    /// The guest's memory could not be written, or its thread could not be entered.
    pub fn leave(self) -> Result<()> {
        match self {
            Self::Ruby(ruby) => ruby.leave().map(drop),
            Self::Python(python) => python.leave().map(drop),
        }
    }
}
