//! Hooks and rings: what is hooked in a guest, and the records that the hooks write. Used by most crates above.
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
//!            bits 24..32  what of a call or return it holds, see [`record`]
//!            bits 32..64  where it stands in the ring, in words, cut to 32 bits: what is left there from
//!                         the lap before has another number
//! ```
//!
//! A record never wraps: where the rest of the ring is too short a [`kind::GAP`] fills it.
//!
//! # A call that nothing is recorded within
//!
//! Behind the record of a call there is room for its return, reserved together with it: a [`kind::ROOM`]. If nothing
//! was recorded in between, the return makes a [`kind::RETURNED`] of it; otherwise it has a record of its own, a
//! [`kind::RETURN`].
//!
//! The reader takes the call at once. It skips an unfilled room if more is reserved behind it, and otherwise stops before it. The writer
//! first announces that it fills the room ([`kind::BEGUN`]), then checks whether anything was reserved behind it (a signal handler may
//! interrupt at any instruction), and only then fills it. So a reader that sees a reservation behind the room also sees what the writer has
//! decided: x86-64 makes the stores of a processor visible in program order.

pub mod blocks;
pub mod further;
mod hook;
mod injection;
mod place;
mod pool;
pub mod record;
pub mod share;
pub mod special;
mod system_call;
pub mod ticket;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64};
use further::Further;
pub use hook::{Hook, Name, OF_BYTES, Patched, fingerprint, inline, operand, want};
pub use injection::{DELAYED, INJECTED, Injection, POKED, REPLACED, SIGNALLED};
pub use place::{
    LONGEST_NAME, MOST_LINES, NO_APPLICATION, NO_APPLICATION_TEXT, NewPlace, OF_LIBRARY, PLACES,
    Place, event_line, library_line, line_policy, lines,
};
pub use pool::{POOL_NAME, Pool, slot};
pub use system_call::{CALLED, COPIED, NO_NUMBER, OPEN, OpenSystemCall, SYSTEM_CALLS};

/// The configuration of the hooks of this process, and the addresses of their data. There is one, a static of the agent.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// Addresses of the threads' rings: an open-addressed table by hash of the thread pointer. 0 = free, [`MOVED`] =
    /// the ring that was here serves another thread, so the search goes on.
    pub rings: [AtomicU64; RINGS],
    /// How many rings were ever made. While it has not changed, the reader need not look through the table.
    pub made: AtomicU64,
    /// Calls of threads that got no ring, and calls on a small stack while no work stack was free
    /// (`routine::room`). This and what stands around it is what the routine reads (`routine::room::Rooms`).
    pub without_ring: AtomicU64,
    /// The process's first stack: the lowest stack pointer with which a hook runs on it, and how far above that the
    /// highest is.
    pub stack: [u64; 2],
    /// 1 = the thread pointer is read with `rdfsbase`, which also says when there is none (0).
    pub tells_pointer: u64,
    /// While system calls are being made whose child gets a copy of this memory, and children are followed: the number of such calls
    /// in the lower half, their session in the upper. In the child, where the gate is wiped, this tells that it is followed.
    pub forking: AtomicU64,
    /// Index in the table from which rings of dead threads are looked for next.
    pub sweep: AtomicU64,
    /// Memory for rings that is shared with the command.
    pub pool: Pool,
    /// Process id, in its own namespace, of a forked child that has a pool of its own now and can be followed.
    pub apart: AtomicU64,
    /// Bytes of the records of a new ring, a power of two.
    pub ring_size: u64,
    /// Cycles of the time-stamp counter that a hook waits at most for room in its ring.
    pub most_wait: u64,
    /// Distance in bytes from the thread pointer to the kernel's thread id in the thread's block (`struct pthread`); 0
    /// = not known.
    pub tid_offset: u64,
    /// How a thread finds its own state in the VM, where the facts of the reader do not say it. If each thread keeps a
    /// pointer to it: the distance of that pointer from the thread pointer. If one thread alone runs scripts: its
    /// thread pointer.
    pub state_offset: u64,
    /// Number of the script's language in crate `vm`; 0 = there is no VM, or none whose lines can be read.
    pub language: u64,
    /// The facts of the language's reader, as `vm` hands them over.
    pub facts: [u64; FACTS],
    /// Words of a record that copies of arguments may take, at most.
    pub room: u64,
    /// Address of the loader's `struct r_debug` (`link.h`); 0 = there is none.
    pub r_debug: u64,
    /// Conditions on script lines: address of their words, and how many words.
    pub line_tests: [u64; 2],
    /// A [`line_policy`]: which line is recorded where frames of libraries stand between the script and the call.
    pub line_policy: u64,
    /// Lines that meet one of these tests, a bit each as in [`line_policy`], are passed over when the application's line is
    /// looked for.
    pub passed_over: u64,
    /// Not 0: what leads to a thread's frames may be wrong or gone, because stacks are copied away under the VM (greenlet), because of its
    /// version (`vm::Reader::is_wary`), or because an interpreter has ended, when the agent writes it. No pointer is followed then: what it
    /// leads to is copied by the kernel.
    pub wary: AtomicU64,
    /// 1 = the seccomp filters of all threads allow `process_vm_readv`, by which hooks copy what arguments lead to; 0 = nothing
    /// is copied.
    pub copies: AtomicU64,
    /// Threads that ask [`Calls::copies`] or make that call at this moment.
    pub copying: AtomicU64,
    /// Pieces of memory that could not be copied because of that, or because the kernel refused the call, ever. Written by the
    /// agent.
    pub uncopied: AtomicU64,
    /// Process id in its own namespace: tells a child of vfork, which runs in the same memory.
    pub pid: u64,
    /// 1 = children of fork and vfork are followed.
    pub follow: u64,
    /// Cycles that a thread waits at most for the answer to a notice (`notices`).
    pub patience: u64,
    /// Cycles that a forked child waits at most to be followed.
    pub child_patience: u64,
    /// Process id of the command as the guest sees it; 0 = it cannot see the command.
    pub owner: u64,
    /// 1 = this child has waited in vain to be followed; its calls until it is followed are not recorded.
    pub late: AtomicU64,
    /// 1 = the command does not follow this child, so it need not wait.
    pub refused: AtomicU64,
    /// Hooks that have panicked, ever. The first one closes the gate
    /// ([`ControlPage::calls`](crate::ControlPage::calls)), so nothing more is recorded in its session. Written by the
    /// agent.
    pub panics: AtomicU64,
    /// What hooks count that see blocks of native allocators.
    pub blocks: blocks::Blocks,
    /// Not 0: value of the time-stamp counter when a hook closed the gate, because the heartbeat had stood still for
    /// too long. The command, when it goes on, opens the gate again and writes 0.
    pub silenced: AtomicU64,
    /// Islands of stubs and tables of hooks that exist in this guest; the next attach uses them again.
    pub areas: [Area; AREAS],
}

/// Words that the facts of a VM's reader take.
pub const FACTS: usize = 24;

/// Threads that can have a ring at the same time.
pub const RINGS: usize = 4096;

const _: () = assert!(RINGS == blocks::TALLIES);

/// Argument of the agent's `open_calls`: no session begins, but a part of what was counted of blocks is forgotten
/// ([`blocks::Blocks::forgotten`]).
pub const FORGET_BLOCKS: u64 = 1;

/// In [`Calls::rings`]: the ring that was here serves another thread.
pub const MOVED: u64 = 1;

/// In [`Ring::tid`]: whichever thread uses the ring next records its kernel id first.
pub const UNKNOWN: u32 = u32::MAX;
/// In [`Ring::tid`]: the ring is being taken from a dead thread.
pub const TAKEN: u32 = 0;

/// Mappings that [`Calls::areas`] can hold.
pub const AREAS: usize = 64;

/// A mapping of hooks, stubs or programs that was made in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Area {
    /// Address of the mapping; 0 = this entry is free.
    pub at: u64,
    /// Bytes of the mapping.
    pub size: u64,
    /// Bytes of it in use.
    pub used: u64,
    /// What it holds, one of [`area`].
    pub holds: u64,
}

/// Values of [`Area::holds`]: what a mapping is used for.
pub mod area {
    /// Stubs, within ±2 GiB of the code that they serve.
    pub const STUBS: u64 = 1;
    /// A table of [`Hook`](super::Hook)s.
    pub const HOOKS: u64 = 2;
    /// Capture programs and [`Name`](super::Name)s; each session writes them anew.
    pub const PROGRAMS: u64 = 3;
}

/// In [`Ring::thread`]: the number is a kernel id, because the thread has no thread pointer. No address has this bit.
pub const NO_POINTER: u64 = 1 << 63;

/// One thread's ring of records with its tables. Made by the agent, found through [`Calls::rings`].
///
/// What the writer changes with each record has a cache line of its own, beside what it only reads; so has what the
/// reader changes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ring {
    /// The thread it belongs to: its thread pointer (`fs` base), or its kernel id and [`NO_POINTER`].
    pub thread: AtomicU64,
    /// The lowest stack pointer with which a hook runs on the thread's own stack, and how far above that the highest is;
    /// where none is known, no stack pointer is between (`routine::room::Room`).
    pub low: AtomicU64,
    /// How many bytes above `low` the highest such stack pointer is.
    pub span: AtomicU64,
    /// The kernel's id of that thread, as last seen; or [`UNKNOWN`], [`TAKEN`].
    pub tid: AtomicU32,
    /// Session in which the ring was last used, cut to 32 bits.
    pub session: AtomicU32,
    /// Address of the records.
    pub records: u64,
    /// Bytes of the records, a power of two.
    pub size: u64,
    /// Address of the table of [`Place`]s: the script lines that this thread has called from.
    pub places: u64,
    /// Address of the first table of [`Count`]s; 0 = none yet.
    pub counts: AtomicU64,
    /// What changes with each record.
    pub written: Written,
    /// Words ever read. Only the command changes it; it has a cache line of its own.
    pub taken: Taken,
    /// Number of the newest line in the table of lines.
    pub last_place: AtomicU32,
    /// Counts that were dropped, because their table is full.
    pub uncounted: AtomicU32,
    /// 1 = the thread has a block of its own that is laid out as the C library's, so that the kernel's id is read from there, where the kernel
    /// clears it when the thread ends, and the VM's state of the thread is looked for. Written when the thread is introduced.
    pub has_block: AtomicU64,
    /// System calls that have not returned. A ring, because a signal handler makes others while one is open.
    pub system_calls: UnsafeCell<[OpenSystemCall; OPEN]>,
    /// How many are open; some of them may never return.
    pub depth: AtomicU64,
    /// Not 0: a system call that makes a child is open; the address of its instruction. A child of vfork runs as this thread, which
    /// waits for it, unless [`COPIED`] is set too.
    pub lent: AtomicU64,
    /// The child that a probe behind a system call has reported, which a hook around the function that made the call does not
    /// report again.
    pub child: AtomicU64,
    /// Hooks wait for room again only when the reader has taken this many words, because an earlier wait was in vain.
    pub waits_from: AtomicU64,
    /// Rows behind the first table.
    pub further: Further,
    /// Which rows of the first table of counts were taken in this session, a bit each from the lowest on. Of a table of 6 MiB a thread mostly
    /// uses a few rows, and those alone are read and emptied; so a bit is set before its row is taken.
    pub rows: [AtomicU64; COUNTS / 64],
}

const _: () = assert!(size_of::<Ring>() <= crate::PAGE);

/// What the writer of a ring changes with each record, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Written {
    /// Words ever reserved for records. Only the writer changes it.
    pub reserved: AtomicU64,
    /// Up to where may be reserved without a look at [`Ring::taken`], and without a gap at the end of the ring.
    pub limit: AtomicU64,
    /// Time-stamp counter at the last call behind whose record there is a [`kind::ROOM`]: names the call.
    pub began: AtomicU64,
    /// Where that room is, in words since the ring was made.
    pub room: AtomicU64,
    /// Records that were dropped, because no room came in time.
    pub lost: AtomicU64,
}

/// The type of [`Ring::taken`], with the alignment of a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Taken(pub AtomicU64);

/// Entries of a table of counts, a power of two. A thread that needs more rows than its first table has room for gets further tables
/// ([`further`]). The pages of a table take memory only where something is counted.
pub const COUNTS: usize = 8192;

/// Buckets of a histogram of durations: 4 for each power of two of cycles.
pub const BUCKETS: usize = 168;

/// What was counted of one hook, called from one script line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Count {
    /// Number of the hook plus one, and in the upper half the number of the line; 0 = free. A system call whose number is
    /// fixed in the code is counted under the number of the hook on its place, which says which function makes it.
    pub key: u64,
    /// Calls that have begun.
    pub begun: u64,
    /// Calls that have returned.
    pub returned: u64,
    /// Calls that have returned on another thread, as those of a coroutine may; that thread counts them. It is the one
    /// field that several threads change.
    pub moved: u64,
    /// Cycles of all calls that have returned, together.
    pub total: u64,
    /// Cycles of the longest call.
    pub longest: u64,
    /// Cycles of the shortest call; 0 = none has returned yet.
    pub shortest: u64,
    /// Calls that have returned an error, as far as [`Hook::outcome`] tells it.
    pub errors: u64,
    /// Bytes that they have moved or got, likewise.
    pub bytes: u64,
    /// Returned calls by duration, see [`bucket`].
    pub buckets: [u32; BUCKETS],
}

/// The bucket of a duration in cycles. There are 4 for each power of two, so that a bucket's bounds are at most a
/// quarter apart.
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

/// The shortest duration in cycles that falls into a bucket.
pub const fn bucket_start(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let exponent = bucket / 4 + 1;
    ((bucket % 4) as u64 + 4) << (exponent - 2)
}

/// What names the row of the calls of a hook from a line: [`Count::key`].
#[inline(always)]
pub const fn row_key(hook: u32, line: u32) -> u64 {
    (hook as u64 + 1) | (line as u64) << 32
}

/// Where the row with this key is looked for first in a table of counts.
#[inline(always)]
pub const fn first_row(key: u64) -> usize {
    crate::mix(key, 0) as usize % COUNTS
}

/// Kinds of records, in the first word of each.
pub mod kind {
    /// No record: fills the rest of the ring.
    pub const GAP: u64 = 1;
    /// A call: [`super::record`], then copies. A copy is address, number of bytes, and the bytes, padded to whole words.
    pub const ENTRY: u64 = 2;
    /// A return: [`super::record`], then copies.
    pub const RETURN: u64 = 3;
    /// A script line that this ring has not named before: [`super::NewPlace`], then its path and its name.
    pub const PLACE: u64 = 4;
    /// One word: the kernel's id of the thread that writes the records from here on.
    pub const THREAD: u64 = 5;
    /// As [`ENTRY`], but written when the call has returned: its [`RETURN`] follows.
    pub const HELD: u64 = 7;
    /// Two words: process id of a child that this thread has made, in the child's namespace; time-stamp counter.
    pub const FORK: u64 = 6;
    /// Room for the return of the call whose record stands before it.
    pub const ROOM: u64 = 8;
    /// The return of that call: [`super::record`].
    pub const RETURNED: u64 = 9;
    /// The record is reserved and still being written.
    pub const BEGUN: u64 = 0xff;
}

/// Returns the first word of a record of `words` words at `position`, in words since the ring was made.
#[inline]
pub const fn header(words: u64, kind: u64, position: u64) -> u64 {
    words & 0xffff | kind << 16 | position << 32
}

/// Returns length in words and kind, if `header` is the first word of the record at `position`; `None` where the ring
/// holds what the lap before has left there.
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
