//! Children of fork: what the parent records of one, and how one waits until the command follows it.

use super::record::Record;
use super::session::{self, calls};
use super::thread::thread;
use super::wait::Wait;
use super::{notices, pool, ring, room};
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;
use wire::calls::{MOVED, Ring, kind, want};

/// A function that is hooked because it may make a child has returned `result`, to where the gate was open for `session`.
pub fn at_return(wanted: u64, session: u32, result: u64) {
    if wanted & want::FORKS == 0 || calls().follow == 0 || result as i64 == -1 {
        return;
    }
    if result == 0 {
        if session != 0 {
            until_followed(session);
        }
    } else if session::number() == session {
        record_fork(result);
        notices::forks(result);
    }
}

/// The child has a copy of the calls that are open here: where, is told in the ring.
fn record_fork(child: u64) {
    let Some(ring) = ring::mine() else {
        return;
    };
    if let Some(record) = Record::begin(ring, kind::FORK, 3, 0) {
        record.word(0, child);
        record.word(1, sys::ticks());
        record.end(0);
    }
}

/// In a child: until the command has opened it.
fn until_followed(session: u32) {
    if !leave_pool(session) {
        calls().late.store(1, Ordering::Relaxed);
        return;
    }
    calls()
        .apart
        .store(sys::process_id().into(), Ordering::Release);
    room::only_ours();
    let mut wait = Wait::new(calls().child_patience);
    while CONTROL_PAGE.calls.load(Ordering::Acquire) == 0 {
        // The command cannot follow it, and says so.
        let refused = calls().refused.load(Ordering::Relaxed) != 0;
        if refused || !wait.goes_on() {
            calls().late.store(1, Ordering::Relaxed);
            return;
        }
    }
    // The same thread pointer, another thread: says so.
    ring::mine();
}

/// In a child of fork, in which nothing else runs and no hook speaks: memory of its own in the place of the pool. The
/// ring of this thread begins anew where it was, because open calls name it; its lines are told again, by other
/// numbers than their parent's. Whether it could be.
fn leave_pool(session: u32) -> bool {
    let pool = &calls().pool;
    if pool.at == 0 {
        return true;
    }
    let thread = thread();
    let mut mine = None;
    for entry in &calls().rings {
        let known = entry.load(Ordering::Relaxed);
        if known <= MOVED || !pool::holds(known) {
            continue;
        }
        // SAFETY: rings are never unmapped.
        let ring = unsafe { &*(known as *const Ring) };
        if ring.thread.load(Ordering::Relaxed) == thread {
            mine = Some((known, ring.last_place.load(Ordering::Relaxed)))
        } else {
            // Its thread is not here.
            entry.store(MOVED, Ordering::Relaxed)
        }
    }
    let slots = pool.slots.load(Ordering::Relaxed);
    let taken = pool.used.load(Ordering::Relaxed).min(slots);
    let (used, rest) = (taken * pool.slot, (slots - taken) * pool.slot);
    // Before the rest is unmapped, where other memory may come to lie.
    pool.open.store(0, Ordering::Relaxed);
    pool.slots.store(taken, Ordering::Relaxed);
    // SAFETY: the mapping is ours; of what it held, what is needed was read.
    let mapped = unsafe {
        if rest != 0 {
            sys::unmap(pool.at + used, rest);
        }
        used == 0 || sys::map_over(pool.at, used, sys::READ_WRITE)
    };
    if let (true, Some((at, last_place))) = (mapped, mine) {
        // SAFETY: a slot of zeros.
        unsafe { ring::write(at, session, thread, last_place) };
    }
    mapped
}
