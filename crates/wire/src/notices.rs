//! Notices: what a thread of the guest reports at once, not through its ring, mostly waiting for an answer. The process ends, it runs
//! another program, it has a child, its VM begins with the script, an IFUNC has picked its function, or the thread is about to forbid what
//! hooks need. Used by `control_page`, and by the crates `hooks`, `agent` and `inject`.
//!
//! ```text
//!   thread                                   command
//!   takes a free slot, fills it
//!   state = its number ────────────────────► sees that `ControlPage::news` has changed, reads the slots
//!   waits while state is that number         handles the notice
//!   goes on ◄─────────────────────────────── state = FREE
//! ```
//!
//! A thread that has waited for too long takes its notice back. The slots lie in the control page, so a child has
//! none of its parent's.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Slots of notices: the number of threads that can wait at the same time.
pub const NOTICES: usize = 64;

/// A slot for a notice.
#[derive(Debug)]
#[repr(C)]
pub struct Notice {
    /// [`FREE`], [`TAKEN`], or the number of the notice: then the other fields are whole.
    pub state: AtomicU32,
    /// Which notice it is, one of [`notice`].
    pub kind: AtomicU32,
    /// Process id in the thread's own namespace. A child of vfork writes it into the memory of its parent.
    pub pid: AtomicU32,
    /// Thread id in the same namespace.
    pub tid: AtomicU32,
    /// What the notice is about: see [`notice`].
    pub value: AtomicU64,
    /// Address of the hook's patched instruction.
    pub place: AtomicU64,
}

/// In [`Notice::state`]: the slot is free.
pub const FREE: u32 = 0;
/// In [`Notice::state`]: a thread has taken the slot and fills it.
pub const TAKEN: u32 = u32::MAX;

/// Values of [`Notice::kind`]: what a thread of the guest reports.
pub mod notice {
    /// The process is about to end, with the exit code in `value` or by `abort`. The thread waits until the command has
    /// read all its records.
    pub const ENDS: u32 = 1;
    /// The process is about to run another program. The thread waits.
    pub const EXEC: u32 = 2;
    /// Running another program has failed, and the process goes on as it was.
    pub const EXEC_FAILED: u32 = 3;
    /// The process has forked the child `value`, which waits to be followed, in memory of its own.
    pub const FORK: u32 = 4;
    /// The VM has been initialised and begins with the script. The thread waits.
    pub const SCRIPT: u32 = 5;
    /// The IFUNC at `place` has picked the function at `value`. The thread waits until that function is hooked.
    pub const PICKED: u32 = 6;
    /// The thread is about to make a system call after which the kernel may kill it for what hooks do: they read the time-stamp counter and
    /// make system calls. `value` is the address of the seccomp program that the thread sets (`struct sock_fprog`), or one of
    /// [`locked`](super::locked) where it is no filter. The thread waits; without an answer it closes the gate, and the notice stays.
    pub const LOCKS: u32 = 7;
}

/// Values of [`Notice::value`] of a [`notice::LOCKS`] that sets no seccomp program. The kernel reads a program from no such address:
/// a page there is mapped by no program (`vm.mmap_min_addr`), and where one is, no `struct sock_fprog` is told that begins there.
pub mod locked {
    /// The time stamp counter, or all system calls but a few: `prctl(PR_SET_TSC)`, seccomp's strict mode.
    pub const COUNTER: u64 = 0;
    /// System calls go to the program's own handler of SIGSYS (Syscall User Dispatch).
    pub const DISPATCH: u64 = 1;
}

impl Notice {
    /// A slot that no thread uses.
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
