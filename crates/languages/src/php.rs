//! What lancet reads of a PHP: its row of the crate's table, a file for each column.

mod frames;
mod functions;
mod resident;
mod snapshot;

use crate::demo::Demo;
use crate::entry::Entry;
use crate::snapshot::FindHeap;
use vm::Language;

/// What lancet reads of a PHP.
pub const ENTRY: Entry = Entry {
    language: Language::Php,
    frames: frames::find,
    frames_alone: None,
    functions: functions::open,
    resident: Some(resident::look),
    extensions: None,
    owner: None,
    patch: None,
    heap: FindHeap::ReadAlone(snapshot::find),
    demo: Demo {
        interpreter: "php",
        file: "shop.php",
        text: include_str!("php/demo.php"),
        has_worker: true,
        slow: &["calls", "-c", "-x", "php:usleep"],
    },
};
