//! How the heap of a Ruby is found and read: from a core file, or from a copy of the process.

use super::{objects, snapshot};
use crate::objects::Objects;
use crate::snapshot::copied::CopiedProcess;
use crate::snapshot::found::Found;
use crate::snapshot::{Beside, Heap, Told};
use heap::{Builder, Snapshot};
use process::error::Result;
use process::memory::GuestMemory;
use vm::Memory;
use vm::ruby::{Facts, Layout};

/// Finds the heap of a Ruby.
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
