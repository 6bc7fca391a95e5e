//! PHP.

mod frames;
mod functions;
mod resident;
mod snapshot;

use crate::entry::Entry;
use crate::snapshot::FindHeap;
use vm::Language;

/// What lancet reads of a PHP.
pub const ENTRY: Entry = Entry {
    language: Language::Php,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
    extensions: None,
    owner: None,
    patch: None,
    births_elsewhere: Some(
        ", the extension memprof (memprof_dump_callgrind) which function has made them",
    ),
    heap: FindHeap::ReadAlone(snapshot::find),
};
