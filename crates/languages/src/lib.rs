//! What lancet reads of each language's VM: a folder a language, and one table of them. Nothing here calls a VM. What refers to what in the
//! heap of a Ruby or Python the VM tells itself, in a copy of the process in which the agent calls it; here that is read.
//!
//! | module | what each language provides for it |
//! |---|---|
//! | `frames` | script frames, and what of a program is parked |
//! | `script` | the lines of scripts as the agent reads them |
//! | `functions` | C functions by the names that scripts have for them |
//! | `extensions` | the compiled extensions of an installed library |
//! | `patch` | a text by which its VM replaces functions of the script |
//! | `snapshot` | the objects and references of its heap |
//! | `objects` | the objects of its heap one by one |
//! | `owner` | whose code a file is |
//! | `resident` | which bytes of its heap hold objects |
//! | `demo` | a small server with faults, to be looked at |
//!
//! A language is added by a folder here and a line in [`ALL`]. How its VM lies in memory is crate `vm`'s; how it is entered is
//! crate `enter`'s, because a VM is entered by stops and remote calls, of which nothing here knows.

#![forbid(unsafe_code)]

pub mod demo;
mod entry;
pub mod frames;
pub mod functions;
mod literal;
pub mod objects;
pub mod owner;
pub mod patch;
mod perl;
mod php;
mod python;
pub mod resident;
mod ruby;
pub mod script;
pub mod snapshot;

pub use entry::Entry;

use std::path::PathBuf;
use vm::Language;

/// All languages.
pub const ALL: [Entry; 4] = [ruby::ENTRY, python::ENTRY, perl::ENTRY, php::ENTRY];

/// What is read of this language's VM.
pub fn of(language: Language) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.language == language)
}

/// Returns the library that a file belongs to (a gem as `NAME-VERSION`, a package by its name), `NAME stdlib` or `NAME core` of a language,
/// or `app`.
///
/// ```
/// assert_eq!(languages::owner("/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb"), "rack-2.2.4");
/// assert_eq!(languages::owner("/srv/shop/app/models/order.rb"), "app");
/// ```
pub fn owner(path: &str) -> &str {
    let mut owners = ALL.iter().filter_map(|entry| entry.owner);
    owners.find_map(|of| of(path)).unwrap_or(owner::APP)
}

/// Returns the compiled extensions of an installed library, by its name (that of a gem): those that each language has, sorted and each once.
pub fn extensions(name: &str) -> Vec<PathBuf> {
    let named = ALL.iter().filter_map(|entry| entry.extensions);
    named.flat_map(|extensions| extensions(name)).collect()
}
