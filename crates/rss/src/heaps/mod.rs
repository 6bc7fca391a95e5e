//! The heaps of VMs: which of their bytes hold objects.
//!
//! A language is a file here and a line in [`VMS`]; nothing else names one. Each says, over memory that it reads without calling the VM
//! and without stopping it, which addresses are whose.

mod php;
mod python;
mod ruby;
mod vm_heap;

use crate::claims::Layer;
use crate::memory::Seen;
use crate::modules::Loaded;
use crate::rows::Rows;
pub use vm_heap::VmHeap;

/// Looks for the heap of one language's VM; `Err` says why a VM that is there could not be read.
type Look = fn(&Seen, &Loaded, &mut Rows) -> Option<Result<(VmHeap, Layer), String>>;

/// The VMs whose heaps can be read.
const VMS: &[Look] = &[ruby::look, python::look, php::look];

/// Looks for the heaps of all VMs of the process; `Err` says why one could not be read.
pub fn look(
    memory: &Seen,
    loaded: &Loaded,
    rows: &mut Rows,
) -> Vec<Result<(VmHeap, Layer), String>> {
    VMS.iter()
        .filter_map(|look| look(memory, loaded, rows))
        .collect()
}
