//! What the VM of a language can be asked for: each language's folder fills an [`Entry`], [`super::ALL`] is the table.
//! Used by `languages`, `python::entry`, `ruby::entry` and others.

use crate::copyable::Copyable;
use crate::counted::Counted;
use crate::interpreter::Interpreter;
use crate::opening::Opening;
use crate::timer::CollectionTimer;
use hooks::ScriptStart;
use inject::Image;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use vm::Language;

/// Opens a process for one question.
pub(crate) type Opens<T> = fn(pid: i32, image: &Image) -> Result<Box<T>>;

/// Opens a process that is configured for the question.
pub(crate) type OpensFor<T> = fn(pid: i32, image: &Image, opening: Opening) -> Result<Box<T>>;

/// Opens a program that we started and that waits where its script begins; an error gives its main thread back.
pub(crate) type OpensAtScript = fn(
    tracee: Tracee,
    start: ScriptStart,
    opening: Opening,
) -> std::result::Result<Box<dyn Counted>, (Tracee, Error)>;

/// What the VM of one language can be asked for; `None` = it is not asked that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The language.
    pub language: Language,
    /// Opens a process to have its VM evaluate texts.
    pub evaluate: Option<Opens<dyn Interpreter>>,
    /// Opens a process to have its births counted.
    pub count: Option<Count>,
    /// Opens a process to have it make a copy of itself at a safe point.
    pub copy: Option<Copy>,
    /// Opens a process to have its collections timed.
    pub time: Option<Opens<dyn CollectionTimer>>,
}

/// How births are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    /// Opens a running process.
    pub open: OpensFor<dyn Counted>,
    /// Opens a started program.
    pub at_script: OpensAtScript,
    /// Whether a thread can have an account of its births.
    pub accounts: bool,
}

/// How a process is copied at a safe point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// Opens a running process.
    pub open: OpensFor<dyn Copyable>,
    /// Whether births can be counted until it is copied.
    pub births: bool,
}
