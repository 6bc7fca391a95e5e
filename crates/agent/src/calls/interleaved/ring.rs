//! Two threads that want the same ring, or the same slot of the pool. Both are played by this one, whose process has no other.

use super::alone::alone;
use super::steps::everywhere;
use crate::calls::pool::slot;
use crate::calls::ring::fixture::Own;
use crate::calls::ring::{introduce, mine, reclaim, speaks};
use crate::calls::session::CALLS;
use crate::calls::system_calls::begins;
use crate::calls::thread::thread;
use crate::memory::follow::ours;
use crate::memory::sys;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use routine::frame::ProbeFrame;
use routine::room::place;
use std::boxed::Box;
use wire::PAGE;
use wire::calls::{Calls, Hook, MOVED, NO_NUMBER, RINGS};

/// The id of the thread whose ring it was: one that the kernel gives to nobody (`PID_MAX_LIMIT`, include/linux/threads.h).
const DEAD: u32 = 0x7000_0000;
/// Where the id of a thread is in its block.
const ID_AT: u64 = 16;

/// What all threads of the agent share; no other thread is there.
fn shared() -> &'static mut Calls {
    // SAFETY: the process runs this test alone, and no reference from another call is used after this one.
    unsafe { &mut *(&raw mut CALLS) }
}

/// The ring of a thread that has ended, and what came of two who wanted it.
struct Wanted {
    own: Own,
    /// The block in which the thread had its id.
    block: Box<[u64; 8]>,
    got: [Cell<bool>; 2],
}

impl Wanted {
    fn new() -> Self {
        let own = Own::new(1 << 12);
        let mut block = Box::new([0; 8]);
        let at = block.as_ptr().expose_provenance() as u64;
        // Another thread has its address by now: this one.
        block[2] = u64::from(sys::thread_id());
        let ring = own.ring();
        ring.thread.store(at, Ordering::Relaxed);
        ring.tid.store(DEAD, Ordering::Relaxed);
        ring.has_block.store(1, Ordering::Relaxed);
        let calls = shared();
        (calls.tid_offset, calls.pool.asks) = (ID_AT, 1);
        calls.sweep.store(0, Ordering::Relaxed);
        for entry in &calls.rings {
            entry.store(0, Ordering::Relaxed);
        }
        calls.rings[5].store(own.address(), Ordering::Relaxed);
        Wanted {
            own,
            block,
            got: Default::default(),
        }
    }

    /// The thread pointer of the one that has ended, and of the new one.
    fn at(&self) -> u64 {
        self.block.as_ptr().addr() as u64
    }

    fn entry(&self) -> u64 {
        shared().rings[5].load(Ordering::Relaxed)
    }
}

/// Two threads without a ring find that of a dead one: one of them gets it.
#[test]
fn a_dead_threads_ring_is_taken_once() {
    if !alone("ring::a_dead_threads_ring_is_taken_once") {
        return;
    }
    everywhere(
        Wanted::new,
        |wanted| wanted.got[0].set(reclaim(0x1000).is_some()),
        |wanted| wanted.got[1].set(reclaim(0x2000).is_some()),
        |wanted, at| {
            let got = [0, 1].map(|who| wanted.got[who].get());
            assert_ne!(got[0], got[1], "behind instruction {at}");
            let owner = if got[0] { 0x1000 } else { 0x2000 };
            assert_eq!(
                wanted.own.ring().thread.load(Ordering::Relaxed),
                owner,
                "behind instruction {at}"
            );
            assert_eq!(wanted.entry(), MOVED, "behind instruction {at}");
        },
    );
}

/// A new thread has the address of the dead one and takes its ring for its own, while another reclaims it: one of them gets it.
#[test]
fn a_ring_is_introduced_or_reclaimed() {
    if !alone("ring::a_ring_is_introduced_or_reclaimed") {
        return;
    }
    let introduces = |wanted: &Wanted| {
        wanted.got[0].set(introduce(wanted.own.ring(), wanted.at(), 0));
    };
    everywhere(
        Wanted::new,
        introduces,
        |wanted| wanted.got[1].set(reclaim(0x2000).is_some()),
        |wanted, at| {
            let got = [0, 1].map(|who| wanted.got[who].get());
            assert_ne!(got[0], got[1], "behind instruction {at}");
            let is_there = wanted.entry() != MOVED;
            assert_eq!(is_there, got[0], "behind instruction {at}");
        },
    );
}

/// This thread has the address of one that has ended, whose ring is in the first place where it looks or in the next one; and there is no
/// memory for another ring.
fn of_this_thread(step: usize) -> Wanted {
    let wanted = Wanted::new();
    wanted.own.ring().thread.store(thread(), Ordering::Relaxed);
    let calls = shared();
    calls.rings[5].store(0, Ordering::Relaxed);
    let first = place(thread());
    calls.rings[first].store(MOVED, Ordering::Relaxed);
    calls.rings[(first + step) % RINGS].store(wanted.own.address(), Ordering::Relaxed);
    calls.ring_size = 1 << 60;
    calls.without_ring.store(0, Ordering::Relaxed);
    wanted
}

/// Another thread takes the ring, is introduced there, and ends: its block is not mapped.
fn another_takes_it(wanted: &Wanted) {
    let got = reclaim(0x2000).is_some();
    wanted.got[1].set(got);
    if got {
        let ring = wanted.own.ring();
        ring.has_block.store(1, Ordering::Relaxed);
        ring.tid.store(DEAD + 1, Ordering::Relaxed);
    }
    // Looking through all rings again would take too many instructions.
    shared().pool.asks = 0;
}

/// A thread asks for its ring while another takes that: it gets it, or none, which is counted; and it reads no block but its own.
#[test]
fn a_ring_that_is_taken_is_not_mine() {
    if !alone("ring::a_ring_that_is_taken_is_not_mine") {
        return;
    }
    for step in [0, 1] {
        everywhere(
            || of_this_thread(step),
            |wanted| wanted.got[0].set(mine().is_some()),
            another_takes_it,
            |wanted, at| {
                let got = [0, 1].map(|who| wanted.got[who].get());
                assert_ne!(got[0], got[1], "behind instruction {at}");
                let without = shared().without_ring.load(Ordering::Relaxed);
                assert_eq!(without, got[1].into(), "behind instruction {at}");
                let owner = if got[0] { thread() } else { 0x2000 };
                let ring = wanted.own.ring();
                let named = ring.thread.load(Ordering::Relaxed);
                assert_eq!(named, owner, "behind instruction {at}");
            },
        );
    }
}

/// The same for a thread that asks whether the ring is certainly its own, which it is not.
#[test]
fn a_ring_that_is_taken_does_not_speak() {
    if !alone("ring::a_ring_that_is_taken_does_not_speak") {
        return;
    }
    let asks = |wanted: &Wanted| wanted.got[0].set(speaks(wanted.own.ring(), thread(), 0));
    everywhere(
        || of_this_thread(0),
        asks,
        another_takes_it,
        |wanted, at| {
            let got = [0, 1].map(|who| wanted.got[who].get());
            assert_eq!(got, [false, true], "behind instruction {at}");
        },
    );
    // It speaks where the id in this thread's block is that of the ring.
    let wanted = of_this_thread(0);
    // SAFETY: the C library's block of this thread is longer than that.
    let id = unsafe { *ours::<u32>(thread() + ID_AT) };
    wanted.own.ring().tid.store(id, Ordering::Relaxed);
    asks(&wanted);
    assert!(wanted.got[0].get());
}

/// musl clears the id in a thread's block before the thread's last system calls: the thread keeps its ring until the kernel has none of it.
#[test]
fn a_thread_that_still_runs_keeps_its_ring() {
    if !alone("ring::a_thread_that_still_runs_keeps_its_ring") {
        return;
    }
    let mut wanted = Wanted::new();
    wanted.block[2] = 0;
    let ring = wanted.own.ring();
    ring.tid.store(sys::thread_id(), Ordering::Relaxed);
    assert_eq!(reclaim(0x2000), None);
    assert_eq!(ring.thread.load(Ordering::Relaxed), wanted.at());
    ring.tid.store(DEAD, Ordering::Relaxed);
    assert_eq!(reclaim(0x2000), Some(wanted.own.address()));
}

/// How many calls of the last owner of a ring have not returned.
const LEFT_OPEN: u64 = 3;

/// The probe before a system call of which nothing is wanted.
fn makes_a_call() {
    let place = Hook {
        instruction: 0x1234,
        fixed: NO_NUMBER,
        ..Hook::default()
    };
    let mut frame = ProbeFrame {
        xmm: [[0; 2]; 16],
        registers: [0; 16],
        flags: 0,
        descriptor: core::ptr::null(),
    };
    // SAFETY: the frame lives until this returns.
    unsafe { begins(&place, &raw mut frame) };
}

/// A thread makes a system call while another takes the ring that was found by its address: it is noted as open in its own ring, behind
/// none of the last owner's, and never in one of another thread.
#[test]
fn a_call_is_noted_in_no_ring_of_others() {
    if !alone("ring::a_call_is_noted_in_no_ring_of_others") {
        return;
    }
    let make = || {
        let wanted = of_this_thread(0);
        let depth = &wanted.own.ring().depth;
        depth.store(LEFT_OPEN, Ordering::Relaxed);
        wanted
    };
    everywhere(
        make,
        |_| makes_a_call(),
        another_takes_it,
        |wanted, at| {
            let taken = wanted.got[1].get();
            let depth = wanted.own.ring().depth.load(Ordering::Relaxed);
            let expected = if taken { LEFT_OPEN } else { 1 };
            assert_eq!(depth, expected, "behind instruction {at}, {taken}");
        },
    );
}

/// A thread that finds no room in the ring of one that has ended has none of its calls open.
#[test]
fn a_ring_without_room_has_no_call_of_its_last_owner() {
    if !alone("ring::a_ring_without_room_has_no_call_of_its_last_owner") {
        return;
    }
    let own = Own::new(0);
    let ring = own.ring();
    ring.thread.store(thread(), Ordering::Relaxed);
    ring.tid.store(DEAD, Ordering::Relaxed);
    ring.depth.store(LEFT_OPEN, Ordering::Relaxed);
    ring.lent.store(0x1234, Ordering::Relaxed);
    assert!(!introduce(ring, thread(), 0));
    let left = [&ring.depth, &ring.lent].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(left, [0, 0]);
}

/// Two threads take slots: never the same one, and of a last one only one gets it.
#[test]
fn a_slot_is_taken_once() {
    if !alone("ring::a_slot_is_taken_once") {
        return;
    }
    let page = PAGE as u64;
    let at = sys::map(2 * page).expect("memory");
    for slots in [1, 2] {
        let make = || {
            let pool = &mut shared().pool;
            (pool.at, pool.slot) = (at, page);
            pool.slots.store(slots, Ordering::Relaxed);
            pool.open.store(1, Ordering::Relaxed);
            pool.used.store(0, Ordering::Relaxed);
            [Cell::new(None), Cell::new(None)]
        };
        everywhere(
            make,
            |got| got[0].set(slot()),
            |got| got[1].set(slot()),
            |got: &[Cell<Option<u64>>; 2], step| {
                let mut taken: std::vec::Vec<u64> = got.iter().filter_map(Cell::get).collect();
                taken.sort_unstable();
                let all = [at, at + page];
                assert_eq!(taken, all[..slots as usize], "behind instruction {step}");
            },
        );
    }
}
