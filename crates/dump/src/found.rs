//! What a heap is read from that is read from outside alone.

use std::time::Instant;

/// Memory that a heap is read from, a copy's or that in a core file.
pub struct Found<'a> {
    /// The memory, which nothing changes.
    pub memory: &'a dyn vm::Memory,
    /// Addresses of exported symbols.
    pub symbol: &'a dyn Fn(&str) -> Option<u64>,
    /// The thread pointers of all threads.
    pub threads: &'a [u64],
    /// Bytes of memory that the process has.
    pub bytes: u64,
    /// Reading is given up then.
    pub until: Instant,
}
