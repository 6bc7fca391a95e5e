//! The ways into a VM: a running process is entered so that its VM evaluates a text, or so that it makes a copy of itself, and is left.
//!
//! | module | what |
//! |---|---|
//! | `entered` | a process with an agent in it that its main thread calls: opened, copied wherever it stands, left |
//! | `ruby` | how a Ruby is entered: to evaluate, to be copied, to have its collections timed; its births are counted by crate `births` |
//! | `python` | how a Python is entered, to evaluate or to be copied |
//! | `copied` | what a process is asked for that makes a copy of itself, and whether there is room for one |
//! | `copy` | such a copy from outside: found, its pipe read until a deadline, confined where it runs code of the process's, killed |
//! | `script` | the text that is evaluated, and its answer, in the agent's memory |
//! | `literal` | texts as literals that all these languages read alike |
//!
//! Which functions of a VM may be called at a stop is the list [`vm::Door`], and `inject::doors` calls them. [`open`] has the table of what
//! each language can be asked for.
//!
//! A text is one expression that evaluates to a string of at most 64 KiB ([`wire::Script`]). It must rescue what it raises. The
//! process is stopped only to make the request; the text runs like code of the program, at a safe point of its VM and with the VM's lock.
//! The VM itself evaluates it, so its caches and compiled code remain valid.

#![forbid(unsafe_code)]

pub mod copied;
pub mod copy;
mod entered;
mod literal;
mod python;
mod ruby;
pub mod script;

pub use entered::{Entered, Reached};
pub use inject::Timing;
pub use literal::literal;
pub use python::Python;
pub use ruby::{Counting, Opening, RubyGuest, VmSession, because};

use inject::Image;
use process::error::{Error, Result};
use std::fmt::Debug;
use std::time::Duration;
use vm::Language;

/// Time without a heartbeat after which the agent leaves by itself.
const DESERTED_AFTER: Duration = Duration::from_secs(5);

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

type Opens = fn(pid: i32, image: &Image) -> Result<Box<dyn Interpreter>>;

/// What the VM of one language can be asked for.
#[derive(Clone, Copy, Debug)]
struct Entry {
    language: Language,
    /// Opens a process to have its VM evaluate texts; `None` = this VM is not asked to.
    evaluate: Option<Opens>,
}

/// How each language is entered.
const ENTRIES: [Entry; 4] = [
    Entry {
        language: Language::Ruby,
        evaluate: Some(|pid, image| Ok(Box::new(VmSession::open_for_evaluation(pid, image)?))),
    },
    Entry {
        language: Language::Python,
        evaluate: Some(|pid, image| Ok(Box::new(Python::open(pid, image)?))),
    },
    // Neither has a function that lets another thread ask for a safe point: they are copied wherever they stand ([`Entered::copy`]).
    Entry {
        language: Language::Perl,
        evaluate: None,
    },
    Entry {
        language: Language::Php,
        evaluate: None,
    },
];

/// Whether texts of this language can be evaluated.
pub fn evaluates(language: &Language) -> bool {
    let mut entries = ENTRIES.iter();
    entries.any(|entry| entry.language == *language && entry.evaluate.is_some())
}

/// Opens a process whose script is in this language, to evaluate texts.
///
/// # Errors
/// It has no such VM, or cannot be opened.
pub fn open(pid: i32, image: &Image, language: Language) -> Result<Box<dyn Interpreter>> {
    let entry = ENTRIES.iter().find(|entry| entry.language == language);
    let open = entry
        .and_then(|entry| entry.evaluate)
        .ok_or(Error::NotAGuest {
            pid,
            reason: "only Ruby and Python are asked to evaluate something",
        })?;
    open(pid, image)
}
