//! What lancet reads of a Perl: its row of the crate's table, a file for each column.

mod frames;
mod functions;
mod snapshot;

use crate::demo::Demo;
use crate::entry::Entry;
use crate::snapshot::FindHeap;
use vm::Language;

/// What lancet reads of a Perl.
pub const ENTRY: Entry = Entry {
    language: Language::Perl,
    frames: frames::find,
    frames_alone: None,
    functions: functions::open,
    // What a Perl has comes from malloc.
    resident: None,
    extensions: None,
    owner: None,
    patch: None,
    heap: FindHeap::ReadAlone(snapshot::find),
    demo: Demo {
        interpreter: "perl",
        file: "shop.pl",
        text: include_str!("perl/demo.pl"),
        has_worker: true,
        slow: &["syscalls", "-c"],
    },
};
