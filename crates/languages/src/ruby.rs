//! Ruby.

mod frames;
mod functions;
mod resident;

use crate::entry::Entry;
use vm::Language;

/// What lancet reads of a Ruby.
pub const ENTRY: Entry = Entry {
    language: Language::Ruby,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
};
