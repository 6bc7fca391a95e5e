//! What the agent does in a Ruby. Used by `languages`.
//!
//! | module | what | who calls it |
//! |---|---|---|
//! | `jobs` | carries out the command's requests | a thread in a remote call; the VM at a safe point |
//! | `births` | books every birth at its line | the VM at each birth, with its lock |
//! | `collections` | how long the collector marks | the VM at each step of its collector |
//! | `evaluation` | text that the VM evaluates | `jobs` |
//! | `snapshot` | what the copy of the process tells of its heap | `crate::snapshot` |
//! | `vmcalls` | the VM's functions, by address | all of these |

mod births;
mod collections;
mod evaluation;
mod jobs;
mod snapshot;
mod vmcalls;

use super::entry::Entry;
use vm::Language;

/// What the agent does in a Ruby.
pub const ENTRY: Entry = Entry {
    language: Language::Ruby,
    enter: jobs::enter,
    at_script: jobs::at_script,
};
