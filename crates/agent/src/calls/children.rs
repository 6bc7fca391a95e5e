//! Children of fork: what the parent records of them, and how a child waits until the command follows it.

use super::record::Record;
use super::session::{self, calls};
use super::thread::thread;
use super::wait::Wait;
use super::{notices, pool, ring, room};
use crate::memory::follow::ours;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;
use wire::calls::{MOVED, Ring, kind, want};

/// Handles the return of a function that may make a child. It returned `result`, and the gate was open for `session` when
/// it was called.
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

/// Records that the child has a copy of the calls that are open in this ring.
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

/// Runs in a child: waits until the command has opened it.
fn until_followed(session: u32) {
    if !leave_pool(session) {
        calls().late.store(1, Ordering::Relaxed);
        return;
    }
    calls()
        .apart
        .store(sys::process_id().into(), Ordering::Release);
    room::only_ours();
    // The parent's other threads, which may have been copying, are not here.
    calls().copying.store(0, Ordering::Relaxed);
    let mut wait = Wait::new(calls().child_patience);
    while CONTROL_PAGE.calls.load(Ordering::Acquire) == 0 {
        // The command has refused to follow it.
        let refused = calls().refused.load(Ordering::Relaxed) != 0;
        if refused || !wait.goes_on() {
            calls().late.store(1, Ordering::Relaxed);
            return;
        }
    }
    // The ring's thread pointer is the same, but the thread is another; this records its id.
    ring::mine();
}

/// Runs in a child of fork, which has one thread and whose gate is closed: replaces the pool by memory of its own. The
/// ring of this thread begins anew at its address, because open calls refer to it; its lines get new numbers, other than
/// in the parent. Returns whether that was possible.
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
        let ring = unsafe { &*ours::<Ring>(known) };
        if ring.thread.load(Ordering::Relaxed) == thread {
            mine = Some((known, ring.last_place.load(Ordering::Relaxed)))
        } else {
            // Its thread does not exist in the child.
            entry.store(MOVED, Ordering::Relaxed)
        }
    }
    let slots = pool.slots.load(Ordering::Relaxed);
    let taken = pool.used.load(Ordering::Relaxed).min(slots);
    let (used, rest) = (taken * pool.slot, (slots - taken) * pool.slot);
    // The pool is closed before the rest is unmapped, because other memory may be mapped there.
    pool.open.store(0, Ordering::Relaxed);
    pool.slots.store(taken, Ordering::Relaxed);
    // SAFETY: the pool is mapped for the agent alone, this process has no other thread, and what is needed of it was read
    // above.
    let mapped = unsafe {
        if rest != 0 {
            sys::unmap(pool.at + used, rest);
        }
        used == 0 || sys::map_over(pool.at, used, sys::READ_WRITE)
    };
    if let (true, Some((at, last_place))) = (mapped, mine) {
        // SAFETY: `at` is a slot of the pool, which was replaced by zeros just now; a slot has room for a ring.
        unsafe { ring::write(at, session, thread, last_place) };
    }
    mapped
}
