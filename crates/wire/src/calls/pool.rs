//! Memory for rings that guest and command share.

use super::{COUNTS, Count, PLACES, Place};
use core::sync::atomic::AtomicU64;

/// Memory for rings that outlives the guest, because the command has it mapped too. Slots of [`slot`] bytes, each a
/// ring with all that belongs to it. Rings that find no slot are made in memory of the guest's own.
///
/// ```text
///   slot   Ring, a page │ lines │ ring │ counts
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Pool {
    /// Its address; 0 = there was never one. It stays for good, shared or not: rings are never unmapped.
    pub at: u64,
    /// Slots that it has: all of them are mapped while it is shared. When a session leaves, the slots that were never taken
    /// are unmapped and this becomes the number of those that were.
    pub slots: AtomicU64,
    /// Bytes of a slot.
    pub slot: u64,
    /// 1 = it is shared now: slots may be taken.
    pub open: AtomicU64,
    /// Slots that were taken.
    pub used: AtomicU64,
    /// 1 = threads may be asked whether they live: no filter forbids it.
    pub asks: u64,
    /// What it is called in the list of mappings, with its final NUL.
    pub name: [u8; 8],
}

/// See [`Pool::name`].
pub const POOL_NAME: [u8; 8] = *b"lancet\0\0";

/// Bytes of a slot of the [`Pool`] with a ring of so many.
pub const fn slot(ring_size: u64) -> u64 {
    let tables = PLACES * size_of::<Place>() + COUNTS * size_of::<Count>();
    (crate::PAGE as u64 + ring_size + tables as u64).next_multiple_of(crate::PAGE as u64)
}
