//! Ruby.

mod extensions;
mod frames;
mod functions;
mod heap;
mod objects;
mod owner;
mod patch;
mod resident;
mod snapshot;
mod untabled;

use crate::entry::Entry;
use crate::snapshot::FindHeap;
use vm::Language;

/// What lancet reads of a Ruby.
pub const ENTRY: Entry = Entry {
    language: Language::Ruby,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
    extensions: Some(extensions::of),
    owner: Some(owner::of),
    patch: Some(patch::PATCHING),
    heap: FindHeap::Told(heap::find),
};
