//! The heap of a VM as a snapshot takes it: every object and every reference, as [`heap::Builder`] takes them.
//!
//! | module | what |
//! |---|---|
//! | `stream` | the bytes that the copy of a process writes, checked ([`wire::snapshot`]) |
//! | `batches` | a thread that reads them while another makes objects of them |
//! | `frozen` | memory that does not change, in blocks that are read once |
//! | `heap_source` | what a heap is read from |
//! | `copied` | the copy of a process, as readers ask it |
//! | `births` | the lines that made objects |
//! | `by_target` | names of references, joined to them |
//! | `outer_references` | who has more references than were found |
//! | `texts` | what is kept of the contents of strings |
//!
//! Everything that comes from the copy is the guest's word: it is checked where it is read, and cannot make more objects than the
//! guest has memory for.

pub(crate) mod batches;
pub mod births;
pub(crate) mod by_target;
pub mod copied;
pub(crate) mod frozen;
pub mod heap_source;
pub(crate) mod outer_references;
pub(crate) mod stream;
pub(crate) mod texts;

use crate::objects::Objects;
use births::Births;
use copied::CopiedProcess;
use heap::{Builder, Snapshot};
use heap_source::HeapSource;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::fmt::Debug;
use std::ops::Range;
use std::time::Instant;
use vm::Memory;

/// The heap of one VM: what the reader of its memory must know of it. A heap that is told by its VM is also a [`Told`], and one that is read
/// from memory alone is also a [`ReadAlone`].
pub trait Heap: Debug {
    /// The version that the VM reports.
    fn vm_version(&self) -> String;

    /// Makes the snapshot of a process from memory alone, in which nothing can be called.
    ///
    /// # Errors
    /// The heap cannot be read, or it took too long.
    fn of_core(
        &self,
        found: &HeapSource,
        builder: Builder,
    ) -> std::result::Result<Snapshot, String>;
}

/// What the heap of a copy is read with, besides what the VM tells in it.
pub struct Beside<'a> {
    /// Addresses of the variables of the module that has the VM; empty where the reader has no use for them.
    pub data: &'a [Range<u64>],
    /// The lines that made objects, if births were counted.
    pub births: Option<Births<'a>>,
    /// Deadline of the reading.
    pub until: Instant,
}

/// A heap whose VM is called in the copy of the process for what refers to what, because its memory alone does not say all of it.
pub trait Told: Heap {
    /// Adds every object of the copy of a process, its references and its roots to `builder`. Also returns how many objects were left out
    /// as garbage.
    ///
    /// # Errors
    /// The copy ended too early, hung, or wrote what makes no sense.
    fn of_copy(
        &self,
        copy: &dyn CopiedProcess,
        beside: Beside,
        builder: Builder,
    ) -> Result<(Builder, u64)>;

    /// For how many objects there is room in the heap of a process that has so many bytes in memory; `None` if that cannot be read, or is
    /// not what the VM counts.
    fn slots(&self, memory: &dyn Memory, resident: u64) -> Option<u64> {
        let _ = (memory, resident);
        None
    }

    /// Bytes of a page of a heap that its VM can compact; `None` = it has no compaction.
    ///
    /// # Errors
    /// How the heap of this version lies in memory is not known; the error says so.
    fn page_of_compaction(&self) -> std::result::Result<Option<u64>, String> {
        Ok(None)
    }

    /// Returns the objects of its process, to be read one by one.
    ///
    /// # Errors
    /// They cannot be read so.
    fn objects<'a>(&self, memory: &'a GuestMemory) -> Result<Box<dyn Objects + 'a>> {
        Err(Error::NotAGuest {
            pid: memory.pid(),
            reason: "the objects of its VM do not lie in slots",
        })
    }
}

/// A heap that is read from memory alone, also of the copy of a process.
pub trait ReadAlone: Heap {
    /// Adds every object, its references and its roots to `builder`.
    ///
    /// # Errors
    /// The heap cannot be read, or it took too long.
    fn of_memory(
        &self,
        found: &HeapSource,
        builder: Builder,
    ) -> std::result::Result<Builder, String>;
}

/// Finds the heap of a process in whose memory the VM is; the error says why it cannot be read.
type FindIn<T> = fn(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> std::result::Result<Box<T>, String>;

/// How the heap of a VM is found, and how that of a running process is read.
#[derive(Clone, Copy, Debug)]
pub enum FindHeap {
    /// The VM tells it.
    Told(FindIn<dyn Told>),
    /// It is read from memory alone.
    ReadAlone(FindIn<dyn ReadAlone>),
}

impl FindHeap {
    /// Finds the heap of a process in whose memory the VM is.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn heap(
        self,
        memory: &dyn Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> std::result::Result<Box<dyn Heap>, String> {
        Ok(match self {
            FindHeap::Told(find) => find(memory, symbol)?,
            FindHeap::ReadAlone(find) => find(memory, symbol)?,
        })
    }
}
