//! How the heap of a Python is found and read: from a core file, or from a copy of the process.

use super::snapshot;
use crate::snapshot::copied::CopiedProcess;
use crate::snapshot::found::Found;
use crate::snapshot::{Beside, Heap, Told};
use heap::{Builder, Snapshot};
use process::error::Result;
use vm::Memory;
use vm::python::Facts;

/// Finds the heap of a Python.
pub fn find(
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

    fn of_core(&self, found: &Found, builder: Builder) -> std::result::Result<Snapshot, String> {
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
