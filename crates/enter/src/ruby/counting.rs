//! How the births of a Ruby are counted until it is copied.
//!
//! A heap is read without knowing how births are counted, and births are counted without knowing how a heap is read. What the
//! one needs of the other is here.

use super::VmSession;
use inject::image::Image;
use languages::snapshot::births::Lines;
use process::error::Result;
use process::memory::GuestMemory;

/// How births of a Ruby are counted until it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Opens a process of which a copy can be made, and counts births in it from then on.
    pub open: fn(pid: i32, image: &Image) -> Result<VmSession>,
    /// Opens the books in a copy's memory, in which the agent has its ledger at this address.
    pub lines: for<'a> fn(copy: &'a GuestMemory, ledger: u64) -> Result<Box<dyn Lines + 'a>>,
}
