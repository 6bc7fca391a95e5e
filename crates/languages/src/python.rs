//! Python.

mod frames;
mod functions;
mod greenlet;
mod heap;
mod owner;
mod patch;
mod resident;
mod snapshot;
mod told;

use crate::entry::Entry;
use crate::snapshot::FindHeap;
use vm::Language;

/// What lancet reads of a Python.
pub const ENTRY: Entry = Entry {
    language: Language::Python,
    frames: frames::find,
    functions: functions::open,
    resident: Some(resident::look),
    extensions: None,
    owner: Some(owner::of),
    patch: Some(patch::PATCHING),
    heap: FindHeap::Told(heap::find),
};
