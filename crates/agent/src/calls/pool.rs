//! Rings in memory that the command shares, so that what they hold outlives the process. Layout: `wire::calls::Pool`.
//!
//! The command maps it, at an attach; here slots of it are taken. Until then they have no protection but `PROT_NONE`,
//! so that a program which locks its memory does not fill all of them.
//!
//! What is shared with the command is shared with a child of fork too. Hooks of a child fall through, so it writes
//! nothing there; before it may be followed it gets rings of its own (`children`). Slots that nobody has taken are not
//! mapped in children that are not followed (`MADV_DONTFORK`, set by the command).

use super::session::calls;
use crate::memory::sys;
use core::sync::atomic::Ordering;

/// Takes a slot of zeros for a ring; its address. `None` = the pool is closed or full, or the kernel refuses the memory.
pub fn slot() -> Option<u64> {
    let pool = &calls().pool;
    let slots = || pool.slots.load(Ordering::Relaxed);
    if pool.open.load(Ordering::Relaxed) == 0 || pool.used.load(Ordering::Relaxed) >= slots() {
        return None;
    }
    let slot = pool.used.fetch_add(1, Ordering::Relaxed);
    let at = pool.at + slot * pool.slot;
    // Asked again: the command may have left since, and what was behind the last slot in use is not ours any more.
    if slot >= slots() || !sys::protect(at, pool.slot, sys::READ_WRITE) {
        return None;
    }
    // A child of fork, too, comes back into frames that know this ring.
    sys::give_to_children(at, pool.slot).then_some(at)
}

/// Whether the ring at this address lies in the pool.
pub fn holds(ring: u64) -> bool {
    let pool = &calls().pool;
    ring.wrapping_sub(pool.at) < pool.slots.load(Ordering::Relaxed) * pool.slot
}
