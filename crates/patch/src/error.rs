//! What can go wrong when a function is replaced, or put back. Used by `apply`, `finder` and others here, and by crate
//! `lancet`.

use std::path::PathBuf;

/// Why something was not done; nothing has changed then, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot be opened, stopped, read or written.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// It may not read the clock by which a patch with a time limit ends.
    #[error(
        "process {pid} forbids itself the time stamp counter, at which a patch with --for looks in each call: patch it without --for"
    )]
    NoClock {
        /// The process.
        pid: i32,
    },
    /// A function cannot be replaced.
    #[error("{function} cannot be replaced: {reason}")]
    Function {
        /// The function, as the user wrote it.
        function: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A file cannot be loaded.
    #[error("{} cannot be loaded: {reason}", file.display())]
    File {
        /// Its path, made absolute.
        file: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Threads are in functions that would be replaced, or had been left by their signal handlers there.
    #[error(
        "{function} cannot be replaced now: {threads} in it; --wait 10s tries again until none is"
    )]
    Inside {
        /// The first of those functions.
        function: String,
        /// The threads, in words.
        threads: String,
    },
    /// A remedy refuses the process, or its arguments.
    #[error("remedy {remedy}: {reason}")]
    Remedy {
        /// The name of the remedy.
        remedy: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// A setting was written and is not what was written.
    #[error("{what} cannot be set: {reason}")]
    Setting {
        /// The setting, in words.
        what: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A patch cannot be undone.
    #[error("patch {id} cannot be undone: {reason}")]
    Undo {
        /// Its number in the process, as `--list` shows it.
        id: u64,
        /// Why, and what to do.
        reason: String,
    },
    /// A patch of a script's function cannot be undone, or the list of them cannot be had.
    #[error("{what}: {reason}")]
    Script {
        /// What was asked for.
        what: String,
        /// Why, and what to do.
        reason: String,
    },
    /// There is no such patch.
    #[error("process {pid} has no patch {id}: lancet patch -p {pid} --list has them")]
    NoSuch {
        /// Id of the process.
        pid: i32,
        /// What was asked for.
        id: u64,
    },
}

/// The result of functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;
