//! What each language's folder provides.

use crate::frames;
use crate::functions::Names;
use crate::resident::FindVmHeap;
use crate::snapshot::FindHeap;
use vm::Language;
use vm::reader::FactWords;

/// What lancet reads of one language's VM.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The language.
    pub language: Language,
    /// Looks for its VM in a process, and returns the reader of its script frames.
    pub frames: frames::FindScripts,
    /// Returns the C functions that the VM with these facts has names for.
    pub functions: fn(&FactWords) -> Box<dyn Names>,
    /// Says which bytes of its heap hold objects; `None` = it has no heap of its own.
    pub resident: Option<FindVmHeap>,
    /// Finds its heap, for a snapshot.
    pub heap: FindHeap,
}
