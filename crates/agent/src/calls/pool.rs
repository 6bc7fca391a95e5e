//! Slots for rings in memory that the command shares, so that their records outlive the process. Layout:
//! `wire::calls::Pool`. Used by `counts::further`, `ring`, `children` and others.
//!
//! The command maps the pool at an attach, and here slots of it are taken. Until then they have the protection
//! `PROT_NONE`, so that a program which locks its memory does not allocate all of them.
//!
//! A child of fork shares this memory too. Hooks of a child fall through, so it writes nothing there; before it is
//! followed it gets rings of its own (`children`). Slots that are not taken are not mapped in children (`MADV_DONTFORK`,
//! set by the command).

use super::session::calls;
use crate::memory::sys;
use core::sync::atomic::Ordering;

/// Takes a slot of zeros for a ring and returns its address. `None` = the pool is closed or full, or the kernel refuses
/// the memory.
pub fn slot() -> Option<u64> {
    let pool = &calls().pool;
    let slots = || pool.slots.load(Ordering::Relaxed);
    if pool.open.load(Ordering::Relaxed) == 0 || pool.used.load(Ordering::Relaxed) >= slots() {
        return None;
    }
    let slot = pool.used.fetch_add(1, Ordering::Relaxed);
    let at = pool.at + slot * pool.slot;
    // Asked again, because the command may have left since; then the memory behind the last slot in use is no longer the
    // pool's.
    if slot >= slots() || !sys::protect(at, pool.slot, sys::READ_WRITE) {
        return None;
    }
    // The child of a fork returns into frames that refer to this ring.
    sys::give_to_children(at, pool.slot).then_some(at)
}

/// The same for a table that a ring needs besides its own slot, if fewer than half of all slots are in use: the others are for rings.
pub fn slot_to_spare() -> Option<u64> {
    let pool = &calls().pool;
    let used = pool.used.load(Ordering::Relaxed);
    (used < pool.slots.load(Ordering::Relaxed) / 2)
        .then(slot)
        .flatten()
}

/// Bytes of a slot.
pub fn size() -> u64 {
    calls().pool.slot
}

/// Whether the ring at this address lies in the pool.
pub fn holds(ring: u64) -> bool {
    let pool = &calls().pool;
    ring.wrapping_sub(pool.at) < pool.slots.load(Ordering::Relaxed) * pool.slot
}
