//! Rows of counts behind the first table of a ring, for threads that call thousands of functions. Used by `calls` and
//! `ticket`, and by the crates `agent` and `hooks`.
//!
//! ```text
//!   Ring::counts    rows 0 .. 8,192: a row is looked for in PROBES places from the hash of its key on
//!   Ring::further   index   131,072 numbers of rows, 16 bits each; 0 = free      used   how many rows are taken
//!                             │ by hash of the key
//!                             ▼
//!                   tables[0]  rows  8,192 .. 16,384 ─┐ taken one after the other, so that memory is used only
//!                   tables[1]  rows 16,384 .. 24,576  │ for rows that there are; each table is made when it is
//!                   …          up to row 65,535      ─┘ reached
//! ```
//!
//! A ticket has 16 bits for a row ([`ticket`](super::ticket)), so there are 65,536 of them. Each table is the last part of a slot of the
//! pool, so that it outlives the process, or a mapping of the process's own where no slot can be spared. The index is at the beginning of
//! the first of them.

use super::{COUNTS, Count, PLACES, Place};
use core::sync::atomic::AtomicU64;

/// Places of the first table in which a row is looked for. Where all of them hold other rows, the row is behind the first table.
pub const PROBES: usize = 8;

/// Tables of [`COUNTS`] rows behind the first one.
pub const TABLES: usize = 7;

/// Rows of all tables of a ring.
pub const ALL_COUNTS: usize = COUNTS * (1 + TABLES);

/// Places of the index, a power of two; less than half of them are taken.
pub const INDEX: usize = 1 << 17;

/// Bytes of the index.
pub const INDEX_BYTES: usize = INDEX * size_of::<u16>();

/// Bytes of a table.
pub const TABLE_BYTES: usize = COUNTS * size_of::<Count>();

/// In [`Further::tables`] and [`Further::index`]: there was no memory for it in this session.
pub const REFUSED: u64 = 1;

const _: () = {
    assert!(ALL_COUNTS - 1 == u16::MAX as usize && ALL_COUNTS < INDEX);
    // Of a slot of the pool that holds a table, the index takes the place of the script lines.
    assert!(INDEX_BYTES <= PLACES * size_of::<Place>());
};

/// Where the rows behind the first table are. Written by the ring's thread; the command reads it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Further {
    /// Addresses of the tables; 0 = not made, or [`REFUSED`].
    pub tables: [AtomicU64; TABLES],
    /// Address of the index, which the command does not read; 0 = not made, or [`REFUSED`].
    pub index: AtomicU64,
    /// How many rows are taken, the first of them being row [`COUNTS`]. One that is free all the same has the key 0.
    pub used: AtomicU64,
}

/// The place of the index in which the row with this key is looked for first. The bits of the hash are others than those of
/// [`first_row`](super::first_row), because the keys that come here have those in common.
#[inline]
pub const fn first_place(key: u64) -> usize {
    (crate::mix(key, 0) >> 32) as usize % INDEX
}
