//! Lanes in memory that the command shares, so that what they hold outlives the process. Layout: `wire::calls::Pool`.
//!
//! The command maps it, at an attach; here slots of it are taken. Until then they have no protection but `PROT_NONE`, so that
//! a program which locks its memory does not fill all of them.
//!
//! What is shared with the command is shared with a child of fork too. Hooks of a child fall through, so it writes
//! nothing there; before it may be followed it gets lanes of its own ([`leave`]).

use super::lane;
use crate::sys;
use core::sync::atomic::Ordering;
use wire::calls::{Calls, Lane, MOVED};

/// A slot for a lane, zeros.
pub fn slot(calls: &Calls) -> Option<u64> {
    let pool = &calls.pool;
    if pool.open == 0 || pool.used.load(Ordering::Relaxed) >= pool.slots {
        return None;
    }
    let slot = pool.used.fetch_add(1, Ordering::Relaxed);
    let at = pool.at + slot * pool.slot;
    (slot < pool.slots && sys::protect(at, pool.slot, sys::READ_WRITE)).then_some(at)
}

/// Whether a lane lies in it.
pub fn holds(calls: &Calls, lane: u64) -> bool {
    let pool = &calls.pool;
    lane.wrapping_sub(pool.at) < pool.slots * pool.slot
}

/// In a child of fork, in which nothing else runs and no hook speaks: memory of its own in the place of the pool. The lane of this
/// thread begins anew where it was, because open calls name it; its lines are told again, by other numbers than their parent's.
/// Whether it could be.
pub fn leave(calls: &Calls, session: u32) -> bool {
    let pool = &calls.pool;
    if pool.at == 0 {
        return true;
    }
    let thread = lane::thread(calls);
    let mut mine = None;
    for entry in &calls.lanes {
        let known = entry.load(Ordering::Relaxed);
        if known <= MOVED || !holds(calls, known) {
            continue;
        }
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(known as *const Lane) };
        match lane.thread.load(Ordering::Relaxed) == thread {
            true => mine = Some((known, lane.last_place.load(Ordering::Relaxed))),
            // Its thread is not here.
            false => entry.store(MOVED, Ordering::Relaxed),
        }
    }
    let used = pool.used.load(Ordering::Relaxed).min(pool.slots) * pool.slot;
    let rest = pool.slots * pool.slot - used;
    // SAFETY: the mapping is ours; of what it held, what is needed was read.
    let mapped = unsafe {
        (used == 0 || sys::map_over(pool.at, used, sys::READ_WRITE))
            && (rest == 0 || sys::map_over(pool.at + used, rest, 0))
    };
    if let (true, Some((at, last_place))) = (mapped, mine) {
        // SAFETY: a slot of zeros.
        unsafe { lane::write(at, calls, session, thread, last_place) };
    }
    mapped
}
