//! Hooks and rings: what is hooked in a guest, and what the hooks say.
//!
//! ```text
//!   guest code ─► stub ─► routine ─► enter ─► the function itself ─► leave
//!                   │                  │                              │
//!                   ▼                  ▼                              ▼
//!                 Hook               Ring: a ring of records, one writer (its thread), one reader (us)
//! ```
//!
//! Hooks and stubs stay for good: a frame of a parked fiber may return into them hours later, and what
//! returns finds its [`Hook`] by address. A later attach uses them again.
//!
//! # A record
//!
//! ```text
//!   word 0   bits 0..16   length in words, this one included
//!            bits 16..24  what it is, a [`kind`]; [`kind::BEGUN`] until it is whole
//!            bits 32..64  where it stands in the ring, in words, cut to 32 bits: what is left there from
//!                         the lap before has another number
//! ```
//!
//! A record never wraps: where the rest of the ring is too short a [`kind::GAP`] fills it.

mod hook;
mod place;
mod pool;
mod system_call;
pub mod ticket;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64};
pub use hook::{Hook, Name, Patched, fingerprint, operand, want};
pub use place::{
    LONGEST_NAME, MOST_LINES, NewPlace, PLACES, Place, event_line, library_line, line_policy, lines,
};
pub use pool::{POOL_NAME, Pool, slot};
pub use system_call::{CALLED, NO_NUMBER, OPEN, OpenSystemCall, SYSTEM_CALLS};

/// What hooks are told, and where everything is: one static of the agent.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// Address of the ring of each thread, by hash of its thread pointer; open addressing. 0 = none yet, [`MOVED`] = it
    /// stands elsewhere now.
    pub rings: [AtomicU64; RINGS],
    /// How many rings were ever made: the table need not be looked through while this stands.
    pub made: AtomicU64,
    /// Calls of threads that got no ring, and calls on a small stack while no work stack was free
    /// (`routine::room`). This and what stands around it is what the routine reads (`routine::room::Rooms`).
    pub without_ring: AtomicU64,
    /// The process's first stack: the lowest stack pointer with which a hook runs on it, and how far above that the
    /// highest is.
    pub stack: [u64; 2],
    /// The processor tells the thread pointer (`rdfsbase`), also that there is none.
    pub tells_pointer: u64,
    /// Where in the table rings of dead threads are looked for next.
    pub sweep: AtomicU64,
    /// Where rings are made that the command shares.
    pub pool: Pool,
    /// The child of fork, as it is numbered in its own namespace, that has its rings for itself now: it can be
    /// followed.
    pub apart: AtomicU64,
    /// Bytes of a ring's ring, a power of two.
    pub ring_size: u64,
    /// Cycles that a hook waits at most for room in its ring.
    pub most_wait: u64,
    /// Where the kernel's thread id stands from the thread pointer; 0 = not known.
    pub tid_offset: u64,
    /// How a thread comes to its own state in the VM, where the reader's facts do not say it. If each thread keeps a
    /// pointer to it: how far that lies from the thread pointer. If one thread alone runs scripts: its thread pointer.
    pub state_offset: u64,
    /// The number of the script's language in crate `vm`; 0 = there is no VM, or none whose lines can be told.
    pub language: u64,
    /// The facts of its reader.
    pub facts: [u64; FACTS],
    /// Words of a record for what is copied of arguments, at most.
    pub room: u64,
    /// Address of the loader's `r_debug`; 0 = there is none.
    pub r_debug: u64,
    /// What lines are looked through for: address of the words, and how many.
    pub line_tests: [u64; 2],
    /// Which line is told, where libraries stand between it and the call: a [`line_policy`].
    pub line_policy: u64,
    /// Not 0: what the VM notes of its frames may be wrong for a moment, because stacks are copied away under it
    /// (greenlet). Nothing is followed then that was not proven readable.
    pub wary: AtomicU64,
    /// The process as it is numbered in its own namespace: a child of vfork runs in the same memory.
    pub pid: u64,
    /// 1 = children are followed, of fork and of vfork.
    pub follow: u64,
    /// Cycles that a thread waits at most to be heard (`notices`).
    pub patience: u64,
    /// The same for a child that waits to be followed.
    pub child_patience: u64,
    /// The command, as the guest numbers it; 0 = it cannot see it.
    pub owner: u64,
    /// 1 = this child has waited in vain to be followed; what it has called until it was is not told.
    pub late: AtomicU64,
    /// 1 = this child is not followed: it need not wait.
    pub refused: AtomicU64,
    /// Hooks that have panicked, ever. The first one closes the gate
    /// ([`ControlPage::calls`](crate::ControlPage::calls)), so nothing more is recorded in its session. Written by
    /// the agent.
    pub panics: AtomicU64,
    /// Not 0: time-stamp counter when a hook closed the gate, because the command had been silent for too long. The
    /// command opens it again when it is back, and writes 0.
    pub silenced: AtomicU64,
    /// Islands of stubs and tables of hooks, for the next attach.
    pub areas: [Area; AREAS],
}

/// Words for the facts of a VM's reader.
pub const FACTS: usize = 24;

/// Threads that can have a ring.
pub const RINGS: usize = 4096;

/// In [`Calls::rings`]: the ring that was here serves another thread.
pub const MOVED: u64 = 1;

/// In [`Ring::tid`]: whoever has the ring is to say who it is.
pub const UNKNOWN: u32 = u32::MAX;
/// In [`Ring::tid`]: it is being taken from a dead thread.
pub const TAKEN: u32 = 0;

/// Mappings that can be noted.
pub const AREAS: usize = 64;

/// A mapping of hooks or stubs that was made in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Area {
    /// Its address; 0 = none.
    pub at: u64,
    /// Its bytes.
    pub size: u64,
    /// Bytes of it in use.
    pub used: u64,
    /// An [`area`].
    pub holds: u64,
}

/// What an area holds.
pub mod area {
    /// Stubs, within reach of the code they serve.
    pub const STUBS: u64 = 1;
    /// [`Hook`](super::Hook)s.
    pub const HOOKS: u64 = 2;
    /// Programs of what to copy, and [`Name`](super::Name)s; written anew by each session.
    pub const PROGRAMS: u64 = 3;
}

/// In [`Ring::thread`]: the thread has no thread-local storage. No address has this bit.
pub const NO_POINTER: u64 = 1 << 63;

/// One thread's ring and tables. Made by the agent, found through [`Calls::rings`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ring {
    /// The thread it belongs to: its thread pointer (`fs` base), or its kernel id and [`NO_POINTER`].
    pub thread: AtomicU64,
    /// The lowest stack pointer with which a hook runs on the thread's own stack, and how far above that the highest is;
    /// where none is known, no stack pointer is between (`routine::room::Room`).
    pub low: AtomicU64,
    /// See `low`.
    pub span: AtomicU64,
    /// The kernel's id of that thread, as it was last seen; or [`UNKNOWN`], [`TAKEN`].
    pub tid: AtomicU32,
    /// Session this ring was last used in, cut to 32 bits.
    pub session: AtomicU32,
    /// Where the ring is.
    pub records: u64,
    /// Its bytes.
    pub size: u64,
    /// Words ever reserved; the writer's.
    pub reserved: AtomicU64,
    /// Records that found no room in time.
    pub lost: AtomicU64,
    /// The lines this thread called from; see [`Place`].
    pub places: u64,
    /// Number of the last of them.
    pub last_place: AtomicU32,
    /// Counts that found no room in the table.
    pub uncounted: AtomicU32,
    /// 1 = the id stands in the thread's own block, where the kernel clears it when the thread is dead.
    pub has_block: AtomicU64,
    /// Table of [`Count`]s; 0 = none yet.
    pub counts: AtomicU64,
    /// Words ever read; the command's alone, on a line of its own.
    pub taken: Taken,
    /// System calls that have not returned, as a ring: signal handlers make more of them within one.
    pub system_calls: UnsafeCell<[OpenSystemCall; OPEN]>,
    /// How many are open; some of them may never return.
    pub depth: AtomicU64,
    /// Not 0: a child of vfork runs as this thread, which waits for it.
    pub lent: AtomicU64,
    /// No hook waits for room before the reader has taken so many words: a wait was in vain.
    pub waits_from: AtomicU64,
}

const _: () = assert!(size_of::<Ring>() <= crate::PAGE);

/// See [`Ring::taken`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Taken(pub AtomicU64);

/// Entries of a ring's table of counts; a power of two. All functions of an interpreter from some lines each; memory is
/// taken only where something is counted.
pub const COUNTS: usize = 8192;

/// Buckets of a histogram: 4 for each power of two of cycles.
pub const BUCKETS: usize = 168;

/// What was counted of one hook and script line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Count {
    /// Number of the hook plus one, and of the line that is told in the upper half; 0 = empty.
    pub key: u64,
    /// Calls that have begun.
    pub begun: u64,
    /// Calls that have returned.
    pub returned: u64,
    /// Calls that have returned on another thread, as those of a coroutine may; that thread counts them. The one
    /// figure that several threads change.
    pub moved: u64,
    /// Cycles of those that have returned.
    pub total: u64,
    /// The longest.
    pub longest: u64,
    /// The shortest; 0 = none yet.
    pub shortest: u64,
    /// Calls by duration: [`bucket`].
    pub buckets: [u32; BUCKETS],
}

/// The bucket of a duration: 4 for each power of two, so that a bucket's bounds are at most a quarter apart.
#[inline]
pub const fn bucket(ticks: u64) -> usize {
    if ticks < 4 {
        return ticks as usize;
    }
    let exponent = 63 - ticks.leading_zeros() as usize;
    let part = (ticks >> (exponent - 2)) as usize & 3;
    let bucket = (exponent - 1) * 4 + part;
    if bucket < BUCKETS {
        bucket
    } else {
        BUCKETS - 1
    }
}

/// The shortest duration that falls into a bucket.
pub const fn bucket_start(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let exponent = bucket / 4 + 1;
    ((bucket % 4) as u64 + 4) << (exponent - 2)
}

/// What a record is.
pub mod kind {
    /// Nothing: the rest of the ring.
    pub const GAP: u64 = 1;
    /// [`super::Entry`], then as wanted: 8 words of floating-point registers, copies: address, bytes, and so many
    /// padded to words.
    pub const ENTRY: u64 = 2;
    /// [`super::Return`], then as wanted: 2 words of xmm0 and xmm1, 2 each of st(0) and st(1), copies.
    pub const RETURN: u64 = 3;
    /// [`super::NewPlace`], then path and name.
    pub const PLACE: u64 = 4;
    /// One word: the kernel's id of the thread from here on.
    pub const THREAD: u64 = 5;
    /// As [`ENTRY`], of a call that has returned: its [`RETURN`] follows.
    pub const HELD: u64 = 7;
    /// Two words: a child that this thread has made, as its namespace numbers it; the time-stamp counter.
    pub const FORK: u64 = 6;
    /// Not whole yet.
    pub const BEGUN: u64 = 0xff;
}

/// A call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Number of the hook; in the upper half its [`lines`].
    pub hook: u64,
    /// Time-stamp counter.
    pub ticks: u64,
    /// Stack pointer at the function's entry: where the return address stands. Names the call until it
    /// returns.
    pub frame: u64,
    /// The return address.
    pub caller: u64,
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub registers: [u64; 6],
    /// rax: in the low byte the vector registers used by variadic arguments.
    pub rax: u64,
}

/// A return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Return {
    /// Number of the hook; in the upper half how many words are of x87 registers.
    pub hook: u64,
    /// Time-stamp counter.
    pub ticks: u64,
    /// [`Entry::frame`] of its call.
    pub frame: u64,
    /// rax, rdx.
    pub registers: [u64; 2],
}

/// The first word of a record.
#[inline]
pub const fn header(words: u64, kind: u64, position: u64) -> u64 {
    words & 0xffff | kind << 16 | position << 32
}

/// Length and kind, if this is the first word of the record at `position`.
#[inline]
pub const fn open(header: u64, position: u64) -> Option<(u64, u64)> {
    if header >> 32 != position & 0xffff_ffff || header & 0xffff == 0 {
        return None;
    }
    Some((header & 0xffff, header >> 16 & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_bounds() {
        for bucket_number in 0..BUCKETS {
            assert_eq!(bucket(bucket_start(bucket_number)), bucket_number);
            if bucket_number > 0 {
                assert_eq!(bucket(bucket_start(bucket_number) - 1), bucket_number - 1);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_header_of_another_lap_is_none() {
        let first = header(12, kind::ENTRY, 64);
        assert_eq!(open(first, 64), Some((12, kind::ENTRY)));
        assert_eq!(open(first, 64 + 32768), None);
        assert_eq!(open(0, 0), None);
    }
}
