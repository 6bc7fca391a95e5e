//! The layout of the memory for rings that guest and command share. Used by the crates `hooks`, `agent` and `rss`.

use super::share::Share;
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
    /// Address in the guest; 0 = there was never one. It stays mapped, shared or not, because rings are never unmapped.
    pub at: u64,
    /// Number of slots. All of them are mapped while the pool is shared; when a session leaves, the slots that were never
    /// taken are unmapped and this becomes the number of the others.
    pub slots: AtomicU64,
    /// Bytes of one slot.
    pub slot: u64,
    /// 1 = the pool is shared with the command now, and slots may be taken.
    pub open: AtomicU64,
    /// Slots that are in use.
    pub used: AtomicU64,
    /// 1 = the kernel may be asked whether a thread lives, because no seccomp filter forbids the system call.
    pub asks: u64,
    /// Name of the mapping in `/proc/PID/maps`, NUL-terminated.
    pub name: [u8; 8],
    /// What the thread that makes the pool is to map.
    pub share: Share,
}

/// Value of [`Pool::name`]: two zeros end it, because it fills eight bytes.
pub const POOL_NAME: [u8; 8] = *b"lancet\0\0";

/// Returns the bytes of a slot whose ring has `ring_size` bytes of records, in whole pages.
pub const fn slot(ring_size: u64) -> u64 {
    let tables = PLACES * size_of::<Place>() + COUNTS * size_of::<Count>();
    (crate::PAGE as u64 + ring_size + tables as u64).next_multiple_of(crate::PAGE as u64)
}
