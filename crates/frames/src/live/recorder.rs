//! Which memory a reader asks for, to copy it at the next look while threads stand still. Used by `open`.

use std::cell::RefCell;
use std::ops::Range;

use process::memory::GuestMemory;
use vm::{Fault, Memory};

/// Memory that remembers which ranges were read.
pub(super) struct Recorder<'a> {
    memory: &'a GuestMemory,
    ranges: RefCell<Vec<Range<u64>>>,
}

impl<'a> Recorder<'a> {
    pub fn of(memory: &'a GuestMemory) -> Self {
        Self {
            memory,
            ranges: RefCell::default(),
        }
    }

    /// Returns what was read.
    pub fn ranges(self) -> Vec<Range<u64>> {
        self.ranges.into_inner()
    }
}

impl Memory for Recorder<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Fault> {
        self.memory.read(at, into)?;
        let end = at.saturating_add(into.len() as u64);
        self.ranges.borrow_mut().push(at..end);
        Ok(())
    }
}
