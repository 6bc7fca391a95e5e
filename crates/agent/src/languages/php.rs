//! What the agent does in a PHP. Used by `languages`.
//!
//! | module | what | who calls it |
//! |---|---|---|
//! | `jobs` | carries out the command's requests | a thread in a remote call |
//! | `births` | books every block that the VM's allocator gives | the VM at each of them |

mod births;
mod jobs;

use super::entry::Entry;
use vm::Language;

/// What the agent does in a PHP.
pub const ENTRY: Entry = Entry {
    language: Language::Php,
    enter: jobs::enter,
    at_script: jobs::at_script,
};
