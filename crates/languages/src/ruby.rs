//! What lancet reads of a Ruby: its row of the crate's table, a file for each column, and how its heap is found and read, from a core file
//! or from a copy of the process.

mod extensions;
mod frames;
mod functions;
mod newest_layout;
mod objects;
mod on_stack;
mod owner;
mod patch;
mod resident;
mod scan_cost;
mod script;
mod snapshot;

use crate::demo::Demo;
use crate::entry::Entry;
use crate::objects::Objects;
use crate::snapshot::copied::CopiedProcess;
use crate::snapshot::heap_source::HeapSource;
use crate::snapshot::{Beside, FindHeap, Heap, Told};
use heap::{Builder, Snapshot};
use process::error::Result;
use process::memory::GuestMemory;
use vm::ruby::{Facts, Layout};
use vm::{Language, Memory};

/// What lancet reads of a Ruby.
pub const ENTRY: Entry = Entry {
    language: Language::Ruby,
    frames: frames::find,
    frames_alone: Some(script::find),
    functions: functions::open,
    resident: Some(resident::look),
    extensions: Some(extensions::of),
    owner: Some(owner::of),
    patch: Some(patch::PATCHING),
    heap: FindHeap::Told(find_heap),
    demo: Demo {
        interpreter: "ruby",
        file: "shop.rb",
        text: include_str!("ruby/demo.rb"),
        has_worker: false,
        slow: &["calls", "-c", "-x", "ruby:Kernel#sleep"],
    },
};

/// Finds the heap of a Ruby.
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
    fn of_copy(
        &self,
        copy: &dyn CopiedProcess,
        beside: Beside,
        builder: Builder,
    ) -> Result<(Builder, u64)> {
        snapshot::read(
            copy,
            (self, beside.data),
            builder,
            beside.births,
            beside.until,
        )
    }

    fn slots(&self, memory: &dyn Memory, resident: u64) -> Option<u64> {
        snapshot::room(memory, *self, resident)
    }

    fn page_of_compaction(&self) -> std::result::Result<Option<u64>, String> {
        let layout = Layout::of(self.version()).map_err(|error| error.to_string())?;
        Ok(Some(layout.heap.align))
    }

    fn objects<'a>(&self, memory: &'a GuestMemory) -> Result<Box<dyn Objects + 'a>> {
        objects::of(*self, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm::ruby::Version;

    #[test]
    fn a_version_that_is_not_known_is_not_one_without_a_compaction() {
        let page = |version: Version| {
            let words = [version.packed(); Facts::WORDS];
            Facts::from_words(words).page_of_compaction()
        };
        assert_eq!(page(Version::new(3, 4, 5)), Ok(Some(64 << 10)));
        let unknown = page(Version::new(1, 8, 7)).expect_err("no layout");
        assert!(unknown.contains("1.8.7"), "{unknown}");
    }
}
