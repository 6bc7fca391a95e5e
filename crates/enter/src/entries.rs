//! What the VM of each language can be asked for.

use crate::interpreter::Interpreter;
use crate::python::Python;
use crate::ruby::Ruby;
use inject::Image;
use process::error::{Error, Result};
use vm::Language;

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
        evaluate: Some(|pid, image| Ok(Box::new(Ruby::open_for_evaluation(pid, image)?))),
    },
    Entry {
        language: Language::Python,
        evaluate: Some(|pid, image| Ok(Box::new(Python::open(pid, image)?))),
    },
    // Neither has a function that lets another thread ask for a safe point: they are copied wherever they stand ([`crate::Entered::copy`]).
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
