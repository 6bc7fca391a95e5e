//! What a heap is read from: the memory and the loaded files of a copy or of a core file. Used by `perl::snapshot`,
//! `perl::snapshot::walk` and others here, and by crate `dump`.

use std::ops::Range;
use std::time::Instant;

/// The memory of a copy or of a core file, and what helps to find a heap there.
pub struct HeapSource<'a> {
    /// The memory, which nothing changes.
    pub memory: &'a dyn vm::Memory,
    /// Addresses of exported symbols.
    pub symbol: &'a dyn Fn(&str) -> Option<u64>,
    /// The thread pointers of all threads.
    pub threads: &'a [u64],
    /// Addresses of the variables of the module that has the VM.
    pub data: &'a [Range<u64>],
    /// The used parts of the threads' stacks, with the threads' numbers; only of a core file.
    pub stacks: &'a [(u32, Range<u64>)],
    /// Bytes of memory that the process has.
    pub bytes: u64,
    /// Deadline of the reading.
    pub until: Instant,
}
