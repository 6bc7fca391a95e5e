//! The lines that made the objects of a copied Ruby, as whoever counts its births tells them.
//!
//! A heap is read without knowing how births are counted, and births are counted without knowing how a heap is read. What the
//! one needs of the other is here.

use super::VmSession;
use inject::image::Image;
use process::error::Result;
use process::memory::GuestMemory;
use std::sync::Arc;

/// Finds the lines that made the objects of one copy. Objects are best looked up in the order of their pages.
pub trait Lines: Send {
    /// Returns the site of the object at this address; `None` if it was not made while births were counted.
    ///
    /// # Errors
    /// The agent's books cannot be read.
    fn site(&mut self, address: u64) -> Result<Option<u32>>;

    /// Returns the file and line of a site; `None` if no script ran there, or there is no such site.
    ///
    /// # Errors
    /// The agent's books cannot be read, or are damaged.
    fn line(&mut self, site: u32) -> Result<Option<(Arc<str>, u32)>>;
}

/// How births of a Ruby are counted until it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Opens a process of which a copy can be made, and counts births in it from then on.
    pub open: fn(pid: i32, image: &Image) -> Result<VmSession>,
    /// Opens the books in a copy's memory, in which the agent has its ledger at this address.
    pub lines: for<'a> fn(copy: &'a GuestMemory, ledger: u64) -> Result<Box<dyn Lines + 'a>>,
}
