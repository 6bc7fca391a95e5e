//! Which bytes of a VM's heap hold objects: what each language's file says of it, over memory that it reads without calling the VM and
//! without stopping it, as ranges of addresses with rows of the ledger of resident memory. Used by `entry`,
//! `php::resident` and others here, and by crate `rss`.

pub mod claims;
pub mod rows;
mod vm_heap;

use claims::Layer;
use process::resident_memory::ResidentMemory;
use process::symbols::Symbols;
use rows::Rows;
use std::ops::Range;
pub use vm_heap::{HeapRows, VmHeap, steadiest};

/// The ELF files that a process has loaded.
pub trait LoadedFiles {
    /// The symbols of the module that exports a name, or of the program itself if that has it; and where the variables of that module
    /// lie.
    fn with_data(&self, name: &str) -> Option<(&Symbols, Vec<Range<u64>>)>;
}

/// Looks for the heap of one language's VM; `None`: it has none, `Err` says why a VM that is there could not be read.
pub type FindVmHeap =
    fn(&ResidentMemory, &dyn LoadedFiles, &mut Rows) -> Option<Result<(VmHeap, Layer), String>>;
