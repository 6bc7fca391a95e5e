//! What lancet reads of each language's VM: a folder a language, and one table of them. Nothing here calls a VM. What refers to what in the
//! heap of a Ruby or Python the VM tells itself, in a copy of the process in which the agent calls it; here that is read.
//!
//! | module | what each language provides for it |
//! |---|---|
//! | `frames` | script frames, and what of a program is parked |
//! | `functions` | C functions by the names that scripts have for them |
//! | `snapshot` | the objects and references of its heap |
//! | `resident` | which bytes of its heap hold objects |
//!
//! A language is added by a folder here and a line in [`ALL`]. How its VM lies in memory is crate `vm`'s; how it is entered is
//! crate `enter`'s, because a VM is entered by stops and remote calls, of which nothing here knows.

#![forbid(unsafe_code)]

mod entry;
pub mod frames;
pub mod functions;
mod perl;
mod php;
mod python;
pub mod resident;
mod ruby;
pub mod snapshot;

pub use entry::Entry;

use vm::Language;

/// All languages.
pub const ALL: [Entry; 4] = [ruby::ENTRY, python::ENTRY, perl::ENTRY, php::ENTRY];

/// What is read of this language's VM.
pub fn of(language: Language) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.language == language)
}
