//! What a thread in a remote call maps of the file of the pool. Used by `pool`, and by the crates `hooks` and `agent`.

use core::sync::atomic::AtomicU64;

/// Parts of the file that are mapped one by one.
pub const PARTS: usize = 2;

/// What [`enter::SHARE`](crate::control_page::enter::SHARE) maps. The thread makes the file, stands still for the command, maps so many parts
/// and closes the file.
#[derive(Debug)]
#[repr(C)]
pub struct Share {
    /// How many parts are to be mapped; the command sets it when the file is prepared and the parts are written. 0 = the file is only closed.
    pub count: AtomicU64,
    /// The parts.
    pub parts: [Part; PARTS],
}

/// A part of the file and where it goes: arguments of mmap(2).
#[derive(Debug)]
#[repr(C)]
pub struct Part {
    /// The address that is wanted.
    pub at: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
    /// `PROT_*`.
    pub protection: AtomicU64,
    /// `MAP_*`.
    pub flags: AtomicU64,
    /// Where it begins in the file.
    pub offset: AtomicU64,
    /// What the kernel has answered; the agent writes it.
    pub answer: AtomicU64,
}

impl Share {
    /// Nothing is to be mapped.
    pub const fn nothing() -> Self {
        Share {
            count: AtomicU64::new(0),
            parts: [const { Part::none() }; PARTS],
        }
    }
}

impl Part {
    const fn none() -> Self {
        Part {
            at: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            protection: AtomicU64::new(0),
            flags: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            answer: AtomicU64::new(0),
        }
    }
}
