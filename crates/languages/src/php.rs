//! PHP.

mod frames;
mod functions;
mod resident;
mod snapshot;

use crate::entry::Entry;
use crate::snapshot::Find;
use vm::Language;

/// What lancet reads of a PHP.
pub const ENTRY: Entry = Entry {
    language: Language::Php,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
    heap: Find::ReadAlone(snapshot::find),
};
