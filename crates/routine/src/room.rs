//! Where `enter`, `leave` and `probe` run: on the stack of their caller, if it is proven to have the room, or else on a
//! stack of the image's own. Used by `code::call_through`, `code::probe` and others here, and by the crates `agent` and
//! `hooks`.
//!
//! What these functions need is some kilobytes. A coroutine, or a handler on its alternate stack, may have a few
//! hundred bytes left, and what lies below them is somebody else's. So the routine asks first:
//!
//! ```text
//!   rsp lies in the thread's own stack, and at least ROOM above its end?     as Room, of the thread, says
//!     yes ─► enter, leave, probe run below the frame, like any function that the guest calls
//!     no  ─► all signals blocked ─► a free work stack taken ─► enter, leave, probe run there
//!                                   none is free, for some 30 ms: the call is not seen, and counted (Rooms::unseen)
//! ```
//!
//! Of a new thread nothing is known until its first hook has run, so that runs on a work stack. Where hundreds begin at once, more than there
//! are work stacks are in their first hook at the same time, and wait for one another.
//!
//! The own stack comes first, because some programs look at each other's stacks: a garbage collector that stops threads
//! by a signal (Boehm's, D's, Mono's) reads from the stack pointer that it finds in the handler up to the end of the
//! thread's stack. On a work stack that would be memory that is not there.
//!
//! Signals are blocked for so long as a work stack is used, because
//!
//! - such a collector then finds the thread on the stack that it knows;
//! - a handler cannot leave by `siglongjmp`, or change to another coroutine, with a work stack taken for good;
//! - the kernel decides by the stack pointer whether a thread is on its alternate stack already
//!   (`on_sig_stack`, include/linux/sched/signal.h): while it is not, a second handler would begin at the upper end of
//!   the alternate stack, in the frames of the first.
//!
//! So a work stack is taken by one thread, and given back by it before anything else of the guest's runs.
//!
//! ```text
//!   trampoline_works   word i: the frame pointer (rbp) of the hook that uses stack i; 0 = it is free
//!   + HEADS            stack 0, then stack 1, …                                      WORK_STACK bytes each
//! ```
//!
//! What stays on the caller's stack: see `frame`.

use core::sync::atomic::AtomicU64;

/// Bytes below the stack pointer that must be the thread's own for a hook to run there.
pub const ROOM: u64 = 16 << 10;
/// Work stacks of an image.
pub const WORK_STACKS: usize = 16;
/// Bytes of each work stack; a power of two.
pub const WORK_STACK: usize = 32 << 10;
/// How often a thread looks for a free work stack before its hook goes unseen.
pub const WAITS: u32 = 500;
/// How many nanoseconds it sleeps after each look. The kernel adds its timer slack of 50 µs (prctl(2), `PR_SET_TIMERSLACK`), so that all
/// looks together take 30 ms or more; a thread in real time has no such slack and takes 5 ms.
pub const MOMENT: u64 = 10_000;
/// Bytes from `trampoline_works` to the first work stack.
pub const HEADS: usize = 4096;
/// Threads that the routine can know.
pub const THREADS: usize = 4096;
/// In [`Rooms::threads`]: the record that was here is of another thread now.
pub const MOVED: u64 = 1;

/// What the routine knows of a thread.
#[repr(C)]
#[derive(Debug)]
pub struct Room {
    /// Its thread pointer; or its kernel id with the highest bit set, if it has none.
    pub thread: AtomicU64,
    /// The lowest stack pointer with which a hook runs on the thread's own stack.
    pub low: AtomicU64,
    /// How far above it the highest is; [`NO_ROOM`] there and here = nothing is known of its stack.
    pub span: AtomicU64,
}

/// [`Room::low`] and [`Room::span`] of a stack of which nothing is known: no stack pointer lies in that range.
pub const NO_ROOM: [u64; 2] = [u64::MAX, 0];

/// What the routine knows of all threads.
#[repr(C)]
#[derive(Debug)]
pub struct Rooms {
    /// Addresses of [`Room`]s, open addressing from [`place`] on. 0 = none yet, or [`MOVED`].
    pub threads: [AtomicU64; THREADS],
    /// How many records were made; the routine neither reads nor writes it.
    pub made: AtomicU64,
    /// Calls that were not seen, because no work stack was free.
    pub unseen: AtomicU64,
    /// [`Room::low`] and [`Room::span`] for threads that have no record: those of the process's first stack.
    pub stack: [AtomicU64; 2],
    /// Not 0: the processor tells the thread pointer (`rdfsbase`). Else it is read from where it points to.
    pub tells_pointer: AtomicU64,
    /// Not 0: this process makes a child that has a copy of its memory, or is that child.
    pub forking: AtomicU64,
}

impl Rooms {
    /// Of a process in which hooks run on whatever stack they are called on.
    pub const fn anywhere() -> Self {
        Rooms {
            threads: [const { AtomicU64::new(0) }; THREADS],
            made: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
            stack: [AtomicU64::new(0), AtomicU64::new(u64::MAX)],
            tells_pointer: AtomicU64::new(0),
            forking: AtomicU64::new(0),
        }
    }
}

/// The word of `trampoline_works` that says who uses the work stack with this address; both are counted from there.
/// `None` = none of them is there.
pub const fn head_of(address: u64) -> Option<u64> {
    match address.checked_sub(HEADS as u64) {
        Some(at) if at < (WORK_STACKS * WORK_STACK) as u64 => Some(at / WORK_STACK as u64 * 8),
        _ => None,
    }
}

/// Where a thread's record is looked for first.
#[inline]
pub const fn place(thread: u64) -> usize {
    // Thread pointers are at least 64 bytes apart, mostly whole stacks.
    (thread >> 6 ^ thread >> 20) as usize % THREADS
}
