//! What the folder of each language provides: the type of a row of the table. Used by `perl`, `php`, `python` and
//! others.

use crate::demo::Demo;
use crate::frames;
use crate::functions::Names;
use crate::patch::Patching;
use crate::resident::FindVmHeap;
use crate::snapshot::FindHeap;
use std::path::PathBuf;
use vm::Language;
use vm::reader::FactWords;

/// What lancet reads of one language's VM.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The language.
    pub language: Language,
    /// Looks for its VM in a process, and returns the reader of its script frames.
    pub frames: frames::FindScripts,
    /// Finds what the agent must know of its VM where nothing but frames is read of it; `None` = there is no such version.
    pub frames_alone: Option<frames::FindFramesAlone>,
    /// Returns the C functions that the VM with these facts has names for.
    pub functions: fn(&FactWords) -> Box<dyn Names>,
    /// Says which bytes of its heap hold objects; `None` = it has no heap of its own.
    pub resident: Option<FindVmHeap>,
    /// Returns the compiled extensions of an installed library, by its name.
    pub extensions: Option<fn(name: &str) -> Vec<PathBuf>>,
    /// Returns the library that a file belongs to, by its path, or what else of the language it is; `None` = it is neither.
    pub owner: Option<for<'a> fn(&'a str) -> Option<&'a str>>,
    /// How functions of the script are replaced; `None` = they are not.
    pub patch: Option<Patching>,
    /// Finds its heap, for a snapshot.
    pub heap: FindHeap,
    /// A small server in it, to be looked at.
    pub demo: Demo,
}
