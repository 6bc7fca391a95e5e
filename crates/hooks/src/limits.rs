//! Bounds on what is read from a process. Used by `rings`, `rings::backing`, `rings::read` and others.
//!
//! The process can write to all that the agent keeps in its memory, and may be a stranger's where we are root. Numbers
//! from there are held to these bounds before anything is computed from them or allocated for them. No program that is
//! merely large comes near them; a process that exceeds them spoils its own report.

use wire::calls;

/// The end of the addresses that a process has with four levels of page tables.
pub const USER_END: u64 = 1 << 47;

/// The smallest ring, in bytes.
pub const LEAST_RING: u64 = 64;
/// The largest ring, in bytes.
pub const MOST_RING: u64 = 1 << 30;
/// The most rings that are read: eight times the most that the agent has at once.
pub const MOST_RINGS: usize = 8 * calls::RINGS;
/// The position in a ring, in words ever written to it, up to which it is read: 2^60 take centuries.
pub const MOST_POSITION: u64 = 1 << 60;

/// The most words of a ring that wait to be handed on; more are left in the ring.
pub const MOST_WAITING: u64 = 1 << 20;
/// The most words that wait in all rings together: 128 MiB. Where there are more, a ring is only read on while none of its
/// own records wait, so that the oldest record of all is always found.
pub const MOST_WAITING_IN_ALL: u64 = 1 << 24;

/// The most script lines that are told apart.
pub const MOST_LINES: usize = 1 << 18;
/// The most bytes of their texts.
pub const MOST_LINE_BYTES: u64 = 32 << 20;
/// The most numbers of script lines of all rings together: each ring numbers the lines that it tells of.
pub const MOST_NUMBERS: usize = 1 << 21;
/// The most rows of tables of counts that are read at once, 750 MiB of them: 256 for each of the most rings that the agent has.
pub const MOST_ROWS: usize = 1 << 20;
/// The most bytes of figures by function and script line that are kept: some 100,000 rows, as calls of one row take similar times. The
/// texts of the lines are bounded for themselves.
pub const MOST_COUNTED_BYTES: usize = 32 << 20;

/// The most hooks that are read back: four times as many as all functions of the largest programs take.
pub const MOST_HOOKS: usize = 1 << 18;
