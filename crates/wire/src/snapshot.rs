//! A snapshot of the heap: what the agent and the command share for it, and the bytes that the child writes. Used by
//! most crates above.
//!
//! The agent makes a child that is a copy of the guest at one moment ([`Request::Snapshot`](crate::Request::Snapshot)). The child
//! makes a pipe, waits until the command has opened its reading end as `/proc/CHILD/fd/N`, and writes the *stream*: sections,
//! each begun by a byte of [`stream`]. Numbers are LEB128 of an unsigned 64-bit word (seven bits a byte, low ones first, the
//! top bit says that another byte follows); a difference is `zigzag`: `(d << 1) ^ (d >> 63)`, computed with wrapping arithmetic.
//!
//! ```text
//!   CATEGORY  length, so many bytes                      the name of the VM's root table that the following roots are in
//!   ROOT      address                                    an object that this table keeps alive
//!   PAGE      start of the slots, bytes of a slot
//!   OBJECT    slots skipped since the last one of this page,
//!             flags, zigzag(class - class of the object before),
//!             bytes + 1 (0 = its size function raised),
//!             edges…, 0                                  1 = its class; else zigzag((target - object) / 8) + 2
//!   GARBAGE   count                                      of slots in this page that a sweep would have freed, left out
//!   END       objects, edges, roots                      how many were written; nothing follows
//! ```
//!
//! The heap of a Python has no pages, so its objects come without them, each once. Its roots are not written, because the reader finds them
//! in the child's memory. An object without references is written where it is first met.
//!
//! ```text
//!   TRACED    zigzag((address - that of the TRACED before) / 8),
//!             edges…, 0                                  (zigzag((target - address) / 8) << 1 | is told here) + 1
//!   ATOM      address                                    an object that refers to nothing and that a root leads to
//!   END       objects, edges, roots                      of objects those that are told within edges too
//! ```
//!
//! Everything in the stream is input from a guest: the reader checks every byte.

pub mod allocator;

use allocator::QUESTIONS;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The bytes that begin a section.
pub mod stream {
    /// The name of a root table.
    pub const CATEGORY: u8 = b'C';
    /// The address of an object that a root table keeps alive.
    pub const ROOT: u8 = b'R';
    /// A heap page of the VM's, which the objects that follow lie in.
    pub const PAGE: u8 = b'P';
    /// An object of the page.
    pub const OBJECT: u8 = b'O';
    /// An object that its address alone tells, and what it refers to.
    pub const TRACED: u8 = b'T';
    /// An object that refers to nothing.
    pub const ATOM: u8 = b'A';
    /// How many dead objects of the page were left out.
    pub const GARBAGE: u8 = b'G';
    /// The end of the stream: how many objects, edges and roots were written.
    pub const END: u8 = b'E';

    /// Returns a difference, of either sign, as a number that is small if the difference is.
    #[inline]
    pub const fn zigzag(difference: u64) -> u64 {
        (difference << 1) ^ ((difference as i64 >> 63) as u64)
    }

    /// Returns the difference of which [`zigzag`] made this number.
    #[inline]
    pub const fn unzigzag(number: u64) -> u64 {
        (number >> 1) ^ (number & 1).wrapping_neg()
    }
}

/// Most bytes of the name of a root table.
pub const LONGEST_CATEGORY: usize = 64;

/// Words that the facts of a Python's reader take ([`Snapshot::facts`]).
pub const FACTS: usize = 24;

/// Values of [`Snapshot::stage`] in the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// It has not begun; also what the guest itself reads.
    None = 0,
    /// The pipe is there; it waits for [`Snapshot::opened`].
    Ready = 1,
    /// It walks the heap and writes the stream.
    Walking = 2,
    /// Everything is written; it waits to be killed, so that its memory can be read.
    Whole = 3,
    /// The VM has compacted its heap; it waits to be killed, so that its memory can be read.
    Compacted = 4,
    /// It could not be confined, or the VM has raised something: nothing is known.
    Refused = 5,
    /// The allocator has answered; it waits to be killed, so that its memory can be read.
    Answered = 6,
}

/// Values of [`Snapshot::opened`]: what the child is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Opened {
    /// The reading end is not open yet.
    No = 0,
    /// It writes the stream.
    ToRead = 1,
    /// It has the VM compact its heap, and writes nothing.
    ToCompact = 2,
    /// It asks the program's allocator what it has, and writes nothing.
    ToAsk = 3,
}

/// Values of [`Snapshot::prepared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Prepared {
    /// The program has waited for as long as it was to, and the child has not come so far.
    No = 0,
    /// A memory limit ends the child before the program.
    EndsFirst = 1,
    /// The child could not ask for that (there is no `/proc` where the program lives).
    Refused = 2,
}

/// Values of [`Snapshot::collector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Collector {
    /// Nobody has asked.
    Unknown = 0,
    /// It frees garbage.
    On = 1,
    /// The program has switched it off.
    Off = 2,
}

/// Mappings that the child makes read-only before it runs code of the program's: the VM's compaction, its allocator.
pub const SHARED: usize = 64;

/// Children of commands that died whose end can be waited for at the same time ([`Snapshot::older`]).
pub const OLDER: usize = 8;

/// What agent, child and command say to each other about snapshots. It lies in the agent's data, which a fork copies: `child`, `older`, `status`,
/// `errno` and `pause` are read in the guest, what the child writes in the child's copy.
#[derive(Debug)]
#[repr(C)]
pub struct Snapshot {
    /// Process id, in the guest's PID namespace, of the child of the last snapshot, while it has not been waited for; else 0. The agent
    /// writes it.
    pub child: AtomicU64,
    /// Process ids of children of commands that died, until they have ended and were waited for; 0 = a free place. The agent writes them.
    pub older: [AtomicU64; OLDER],
    /// Exit status of the last child, as wait4 returns it; `u64::MAX` = it was not reaped. The agent writes it.
    pub status: AtomicU64,
    /// Why the kernel refused the child, an `errno`; 0 = it did not. The agent writes it.
    pub errno: AtomicU64,
    /// Nanoseconds that the kernel took to make the child, in which the thread that has the VM's lock stood still. The agent
    /// writes it.
    pub pause: AtomicU64,
    /// A [`Stage`]. The child writes it.
    pub stage: AtomicU32,
    /// An [`Opened`]. The command writes it when it has opened the reading end.
    pub opened: AtomicU32,
    /// Descriptor of the reading end in the child. The child writes it.
    pub pipe: AtomicU64,
    /// The stack pointer of the thread that makes a remote call for the request, as it was before; below it lies nothing of the
    /// program's. The command writes it.
    pub stack: AtomicU64,
    /// Nanoseconds that the program waits at most until its copy is the one that a memory limit ends, and has closed its descriptors. The command
    /// writes it.
    pub prepare: AtomicU64,
    /// A [`Prepared`]: what the program was told when it went on. The agent writes it.
    pub prepared: AtomicU64,
    /// Whether the VM's collector is switched on: a [`Collector`]. The agent writes it for a Ruby.
    pub collector: AtomicU64,
    /// Address of the VM's first shape, and its distance to the second; 0 = it does not say. The child writes it.
    pub shapes: AtomicU64,
    /// Distance in bytes from the first shape to the second; 0 = the VM does not say.
    pub shape_size: AtomicU64,
    /// What the reader of a Python must know (`vm::python::Facts`); of a Ruby that is in [`Config`](crate::Config). The command writes it.
    pub facts: [AtomicU64; FACTS],
    /// The object that is being asked for its references or its size, for a walk that does not come to its end. The child
    /// writes it.
    pub at: AtomicU64,
    /// Pages of the heap, and those of them without an object, before and after it was compacted. The child writes it.
    pub pages: [[AtomicU64; 2]; 2],
    /// How many of `shared` there are. The command writes both, in the child, before it says [`Opened::ToCompact`]
    /// or [`Opened::ToAsk`].
    pub shared_count: AtomicU64,
    /// Address and bytes of the mappings that the child could change for others too.
    pub shared: [[AtomicU64; 2]; SHARED],
    /// An [`Asked`](allocator::Asked), and the address of the function. The command writes both, in the child, before it says [`Opened::ToAsk`].
    pub asked: [AtomicU64; 2],
    /// What it has answered, by the number of the question. The child writes it.
    pub answers: [AtomicU64; QUESTIONS],
}

impl Snapshot {
    /// No snapshot was made.
    pub const fn new() -> Self {
        Snapshot {
            child: AtomicU64::new(0),
            older: [const { AtomicU64::new(0) }; OLDER],
            status: AtomicU64::new(u64::MAX),
            errno: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            stage: AtomicU32::new(Stage::None as u32),
            opened: AtomicU32::new(Opened::No as u32),
            pipe: AtomicU64::new(0),
            stack: AtomicU64::new(0),
            prepare: AtomicU64::new(0),
            prepared: AtomicU64::new(Prepared::No as u64),
            collector: AtomicU64::new(Collector::Unknown as u64),
            shapes: AtomicU64::new(0),
            shape_size: AtomicU64::new(0),
            facts: [const { AtomicU64::new(0) }; FACTS],
            at: AtomicU64::new(0),
            pages: [const { [const { AtomicU64::new(0) }; 2] }; 2],
            shared_count: AtomicU64::new(0),
            shared: [const { [const { AtomicU64::new(0) }; 2] }; SHARED],
            asked: [const { AtomicU64::new(0) }; 2],
            answers: [const { AtomicU64::new(0) }; QUESTIONS],
        }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new()
    }
}
