//! Why a source or a recording could not be opened or read. Used by `live::bpf`, `live::family` and others here, and by
//! crate `lancet`.

use crate::live::is_of_kernel;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why it cannot be done. The text is one line without the next step, which the caller adds.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process could not be opened, hooked or left.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The program that was to be started could not be hooked at its first instruction, and was killed there.
    #[error("the program was not run: {0}")]
    NotRun(process::Error),
    /// The program that was to be started ended before its exec.
    #[error("the program ended before it began")]
    EndedEarly,
    /// The user who is to run the program does not exist.
    #[error("there is no user {0}")]
    NoUser(String),
    /// Several processes were named, and none could be opened.
    #[error("none of the processes could be opened")]
    NothingOpened,
    /// Nothing of what was requested exists or can be hooked, and nothing that comes later can change that.
    #[error(
        "process {0}: nothing of what was asked for is there and can be hooked, and no library can bring it: there is nothing to wait for"
    )]
    NothingHooked(i32),
    /// None of the many places where it makes system calls can be hooked.
    #[error(
        "process {pid}: none of the {places} places where it makes system calls can be hooked, because {reason}"
    )]
    NoPlaceHooked {
        /// Id of the process.
        pid: i32,
        /// Number of the places.
        places: usize,
        /// Why most of them cannot be hooked.
        reason: String,
    },
    /// Too few of the places where it makes system calls can be hooked.
    #[error(
        "process {pid}: {refused} of the {places} places where {whose} system calls cannot be hooked, because {reason}"
    )]
    FewPlacesHooked {
        /// Id of the process.
        pid: i32,
        /// Number of the places that cannot be hooked.
        refused: usize,
        /// Number of all places.
        places: usize,
        /// Whose places they are, with the verb.
        whose: &'static str,
        /// Why most of them cannot be hooked.
        reason: String,
        /// Whether it makes system calls of 32 bits there, which BPF programs do not tell from others.
        of_32_bits: bool,
    },
    /// Some of what was requested would not be seen, and all of it is required.
    #[error("process {pid} is not watched, because not all of it would be seen: {}", unseen.join("; "))]
    NotExact {
        /// Id of the process.
        pid: i32,
        /// What would not be seen.
        unseen: Vec<String>,
        /// Whether a tracer would see all of it.
        by_tracing: bool,
    },
    /// BPF programs cannot see it.
    #[error("process {pid}: {why}")]
    Bpf {
        /// Id of the process.
        pid: i32,
        /// What the kernel lacks or refuses.
        why: Arc<tracepoint::Refused>,
    },
    /// Hooks cannot inject what was requested, or not from a program's first call on.
    #[error("what is injected is for its tracer to do")]
    Tampers,
    /// None of the requested functions can meet the condition.
    #[error(
        "process {0}: no function that was asked for has what --where asks about: there is nothing to wait for"
    )]
    NothingMeets(i32),
    /// A file with prototypes that was named cannot be read.
    #[error("cannot read prototypes from {path}: {error}")]
    Prototypes {
        /// The file, as it was named.
        path: PathBuf,
        /// What the system, or the reader of the file, says.
        error: io::Error,
    },
    /// A file with prototypes that was found by searching cannot be read.
    #[error("cannot read prototypes: {0}")]
    Search(io::Error),
    /// A file with prototypes that was named holds a mistake.
    #[error("{0}")]
    Grammar(prototypes::Error),
    /// A recording cannot be opened.
    #[error("cannot read {path}: {error}")]
    Recording {
        /// The file, as it was named.
        path: PathBuf,
        /// What the system, or the reader of the file, says.
        error: recording::Error,
    },
    /// A consumer could not write.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Error {
    /// The error of a process of which this would not be seen.
    pub(crate) fn not_exact(pid: i32, unseen: Vec<String>) -> Self {
        let by_tracing = !unseen.iter().any(|one| is_of_kernel(one));
        Error::NotExact {
            pid,
            unseen,
            by_tracing,
        }
    }

    /// Returns the failure in a guest, if that is the cause, because there may be advice for it.
    pub fn of_process(&self) -> Option<&process::Error> {
        match self {
            Error::Process(error) | Error::NotRun(error) => Some(error),
            _ => None,
        }
    }
}
