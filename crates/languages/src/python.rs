//! What lancet reads of a Python: its row of the crate's table, a file for each column, and how its heap is found and read, from a core
//! file or from a copy of the process.

mod debug_offsets;
mod frames;
mod functions;
mod greenlet;
mod owner;
mod patch;
mod resident;
mod script;
mod snapshot;

use crate::demo::Demo;
use crate::entry::Entry;
use crate::snapshot::copied::CopiedProcess;
use crate::snapshot::heap_source::HeapSource;
use crate::snapshot::{Beside, FindHeap, Heap, Told};
use heap::{Builder, Snapshot};
use process::error::Result;
use vm::python::Facts;
use vm::{Language, Memory};

/// What lancet reads of a Python.
pub const ENTRY: Entry = Entry {
    language: Language::Python,
    frames: frames::find,
    frames_alone: Some(script::find),
    functions: functions::open,
    resident: Some(resident::look),
    extensions: None,
    owner: Some(owner::of),
    patch: Some(patch::PATCHING),
    heap: FindHeap::Told(find_heap),
    demo: Demo {
        interpreter: "python3",
        file: "shop.py",
        text: include_str!("python/demo.py"),
        has_worker: false,
        slow: &["calls", "-c", "-x", "python:time.sleep"],
    },
};

/// Finds the heap of a Python.
fn find_heap(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> std::result::Result<Box<dyn Told>, String> {
    let facts = Facts::find(&memory, symbol).map_err(|error| error.to_string())?;
    Ok(Box::new(facts))
}

impl Heap for Facts {
    fn vm_version(&self) -> String {
        self.version().to_string()
    }

    fn of_core(
        &self,
        found: &HeapSource,
        builder: Builder,
    ) -> std::result::Result<Snapshot, String> {
        snapshot::core::read(*self, found, builder)
    }
}

impl Told for Facts {
    /// The copy contains all garbage; it is recognized because nothing refers to it.
    fn of_copy(
        &self,
        copy: &dyn CopiedProcess,
        beside: Beside,
        builder: Builder,
    ) -> Result<(Builder, u64)> {
        snapshot::read(copy, *self, builder, beside.until).map(|builder| (builder, 0))
    }
}
