//! What a thread of the guest says at once, beside its ring, and mostly waits to be heard: the process ends, it runs
//! another program, it has a child, its VM begins with the script, an IFUNC has picked its function.
//!
//! ```text
//!   thread                                   command
//!   takes a free slot, fills it
//!   state = its number ────────────────────► sees that `ControlPage::news` has changed, reads the slots
//!   waits while state is that number         does what is to be done
//!   goes on ◄─────────────────────────────── state = FREE
//! ```
//!
//! A thread that has waited for too long takes its notice back. The slots lie in the control page, so a child has
//! none of its parent's.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Slots: threads that may wait at once.
pub const NOTICES: usize = 64;

/// A slot.
#[derive(Debug)]
#[repr(C)]
pub struct Notice {
    /// [`FREE`], [`TAKEN`], or the notice's number: then the rest is whole.
    pub state: AtomicU32,
    /// A [`notice`].
    pub kind: AtomicU32,
    /// The process, as it is numbered in its own namespace. A child of vfork says it in its parent's memory.
    pub pid: AtomicU32,
    /// The thread, likewise.
    pub tid: AtomicU32,
    /// See [`notice`].
    pub value: AtomicU64,
    /// The hooked place that says it.
    pub place: AtomicU64,
}

/// [`Notice::state`]: nobody's.
pub const FREE: u32 = 0;
/// [`Notice::state`]: being filled.
pub const TAKEN: u32 = u32::MAX;

/// What a notice says.
pub mod notice {
    /// The process is about to end, with the exit code in `value`, or by its own hand (abort). The thread waits until
    /// everything was read.
    pub const ENDS: u32 = 1;
    /// The process is about to run another program. The thread waits.
    pub const EXEC: u32 = 2;
    /// It could not.
    pub const EXEC_FAILED: u32 = 3;
    /// It has a child, `value`, which waits for us in memory of its own.
    pub const FORK: u32 = 4;
    /// The VM is made and begins with the script. The thread waits.
    pub const SCRIPT: u32 = 5;
    /// The IFUNC at `place` has picked the function at `value`. The thread waits until that one is hooked.
    pub const PICKED: u32 = 6;
}

impl Notice {
    /// Nobody's.
    pub const fn new() -> Self {
        Notice {
            state: AtomicU32::new(FREE),
            kind: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            value: AtomicU64::new(0),
            place: AtomicU64::new(0),
        }
    }
}

impl Default for Notice {
    fn default() -> Self {
        Self::new()
    }
}
