//! PHP.

mod frames;
mod functions;
mod resident;
mod snapshot;

use crate::entry::Entry;
use vm::Language;

/// What lancet reads of a PHP.
pub const ENTRY: Entry = Entry {
    language: Language::Php,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
    heap: snapshot::find,
    tells_heap: false,
};
