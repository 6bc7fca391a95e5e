//! How births are counted until a process is copied: what a heap snapshot is handed by the command for that. Used by
//! the crates `births` and `dump`.
//!
//! A heap is read without knowing how births are counted, and births are counted without knowing how a heap is read. What the
//! one needs of the other is here, as data and closures. How a process is opened and what is checked before is not among it.

use crate::opening::Opening;
use process::error::Result;
use process::memory::GuestMemory;
use std::sync::Arc;

/// Returns the site at which the object at an address was made; `None` if it was not made while births were counted. An error: the
/// agent's books cannot be read.
pub type Sites<'a> = Box<dyn FnMut(u64) -> Result<Option<u32>> + Send + 'a>;

/// Returns the file and line of a site; `None` if no script ran there, or there is no such site. An error: the agent's books cannot be
/// read, or are damaged.
pub type Lines<'a> = Box<dyn FnMut(u32) -> Result<Option<(Arc<str>, u32)>> + Send + 'a>;

/// Opens the books in a copy's memory, in which the agent has its ledger at this address.
pub type Books = for<'a> fn(copy: &'a GuestMemory, ledger: u64) -> Result<(Sites<'a>, Lines<'a>)>;

/// How births of a process are counted until it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// What the process is opened for.
    pub opening: Opening,
    /// Opens the books of a copy.
    pub books: Books,
}
