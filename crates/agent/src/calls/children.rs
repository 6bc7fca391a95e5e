//! Children of fork: what the parent records of them, and how a child waits until the command follows it. Used by
//! `system_calls`, `call` and `probes`.
//!
//! A child comes here from the function `fork`, or from a probe behind the system call that has made it: then it is followed from
//! that call on, whatever made it (`clone(2)`, a bare `fork(2)`). Its gate is wiped, and what its parent's ring held may have
//! changed meanwhile, so that it is recognised by [`Calls::forking`](wire::calls::Calls::forking), of which it has a copy of its own.

use super::record::Record;
use super::session::{self, calls};
use super::thread::thread;
use super::wait::Wait;
use super::{locks, notices, pool, ring, room};
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
        if is_followed() {
            // The C library has noted the thread's id since then.
            ring::introduce_again();
        } else if session != 0 {
            until_followed(session);
        }
    } else if session::number() == session {
        let ring = ring::mine();
        if ring.is_none_or(|ring| ring.child.load(Ordering::Relaxed) != result) {
            report(ring, result);
        }
    }
}

/// Notes that this thread is about to make a child that has a copy of the memory.
pub fn expect(ring: &Ring) {
    ring.child.store(0, Ordering::Relaxed);
    change_forking(|count| count + 1);
}

/// Handles the return of that system call in the parent. `child`: its process id, if one was made.
pub fn made(ring: &Ring, child: Option<u64>) {
    change_forking(|count| count.saturating_sub(1));
    if let Some(child) = child {
        report(Some(ring), child);
        ring.child.store(child, Ordering::Relaxed);
    }
}

/// Changes how many such calls are open in this session.
fn change_forking(to: impl Fn(u64) -> u64) {
    let order = Ordering::Relaxed;
    let session = u64::from(session::number()) << 32;
    let _ = calls().forking.fetch_update(order, order, |now| {
        let count = if now & !COUNT == session {
            now & COUNT
        } else {
            0
        };
        Some(session | to(count))
    });
}

/// The bits of [`Calls::forking`](wire::calls::Calls::forking) that count.
const COUNT: u64 = 0xffff_ffff;

/// Handles a thread that passes a probe with the gate closed. In a child that has come out of a system call, and that the command follows,
/// it returns when it is followed.
#[cold]
pub fn at_probe() {
    let forking = calls().forking.load(Ordering::Relaxed);
    let is_late = calls().late.load(Ordering::Relaxed) != 0;
    if forking & COUNT == 0 || calls().follow == 0 || is_late || locks::are_there() {
        return;
    }
    if u64::from(sys::process_id()) != calls().pid && !is_followed() {
        until_followed((forking >> 32) as u32);
    }
}

/// Whether this process is a child that has stopped sharing its parent's rings.
fn is_followed() -> bool {
    calls().apart.load(Ordering::Relaxed) == u64::from(sys::process_id())
}

/// Records that the child has a copy of the calls that are open in the ring, and posts that it is there.
fn report(ring: Option<&Ring>, child: u64) {
    if let Some(record) = ring.and_then(|ring| Record::begin(ring, kind::FORK, 3, 0)) {
        record.word(0, child);
        record.word(1, sys::ticks());
        record.end(0);
    }
    notices::forks(child);
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
    // The parent's other threads, which may have been copying or forking, are not here.
    calls().copying.store(0, Ordering::Relaxed);
    calls().forking.store(0, Ordering::Relaxed);
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
