//! What the agent does in a Python. Used by `languages`.
//!
//! | module | what | who calls it |
//! |---|---|---|
//! | `jobs` | carries out the command's requests | a thread in a remote call; the VM at a safe point |
//! | `births` | books every block that the VM's allocators give | the VM at each of them, with its lock |
//! | `evaluation` | text that the VM evaluates | `jobs` |
//! | `snapshot` | what the copy of the process tells of its heap | `crate::snapshot` |

mod births;
mod evaluation;
mod jobs;
mod snapshot;

use super::entry::Entry;
use vm::Language;

/// What the agent does in a Python.
pub const ENTRY: Entry = Entry {
    language: Language::Python,
    enter: jobs::enter,
    at_script: jobs::at_script,
};
