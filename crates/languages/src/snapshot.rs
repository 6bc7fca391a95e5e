//! The heap of a VM as a snapshot takes it: every object and every reference, as [`heap::Builder`] takes them.
//!
//! | module | what |
//! |---|---|
//! | `stream` | the bytes that the copy of a process writes, checked ([`wire::snapshot`]) |
//! | `ahead` | a thread that reads them while another makes objects of them |
//! | `frozen` | memory that does not change, in blocks that are read once |
//! | `found` | what a heap is read from |
//! | `copied` | the copy of a process, as readers ask it |
//! | `births` | the lines that made objects |
//! | `by_target` | names of references, joined to them |
//! | `held` | who has more references than were found |
//! | `texts` | what is kept of the contents of strings |
//!
//! Everything that comes from the copy is the guest's word: it is checked where it is read, and cannot make more objects than the
//! guest has memory for.

pub(crate) mod ahead;
pub mod births;
pub(crate) mod by_target;
pub mod copied;
pub mod found;
pub(crate) mod frozen;
pub(crate) mod held;
pub(crate) mod stream;
pub(crate) mod texts;

use births::Births;
use copied::CopiedProcess;
use found::Found;
use heap::{Builder, Snapshot};
use process::error::Result;
use std::fmt::Debug;
use vm::Memory;

/// The heap of one VM: what the reader of its memory must know of it.
pub trait Heap: Debug {
    /// The version that the VM reports.
    fn vm_version(&self) -> String;

    /// Makes the snapshot of a process from memory alone, in which nothing can be called.
    ///
    /// # Errors
    /// The heap cannot be read, or it took too long.
    fn of_core(&self, found: &Found, builder: Builder) -> std::result::Result<Snapshot, String>;

    /// Adds every object of the copy of a process, its references and its roots to `builder`. Also returns how many objects were left out
    /// as garbage.
    ///
    /// # Errors
    /// The copy ended too early, hung, or wrote what makes no sense.
    fn of_copy(
        &self,
        copy: &dyn CopiedProcess,
        found: &Found,
        builder: Builder,
        births: Option<Births>,
    ) -> Result<(Builder, u64)>;
}

/// Finds the heap of a process in whose memory the VM is; the error says why it cannot be read.
pub type Find = fn(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> std::result::Result<Box<dyn Heap>, String>;
