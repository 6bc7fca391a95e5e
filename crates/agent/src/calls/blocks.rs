//! Counts blocks of native allocators where `malloc` and its kin are called: births and deaths, by the place that the call returns to.
//! Layout and the way of a block: `wire::calls::blocks`.
//!
//! A block's word is written before its taker knows the block, and taken away before the allocator knows that it is free. So no two threads
//! write one word at a time, unless the program gives a block back twice. What a thread counts is in rows of its own, each changed by one
//! instruction, which a handler of a signal cannot split. Nothing here waits, and nothing of the guest is called.
//!
//! Most calls go the short way ([`enter_at_once`], [`leave_at_once`]): they find all they need. [`enter`] and [`leave`] make what is missing.
//!
//! Used by `call` and `quick`, and by `calls` when a session begins.

mod book;
#[cfg(all(test, not(miri)))]
mod tests;

use super::hooked::Hooked;
use super::thread::thread;
use super::{hooked::NO_VECTORS, pulse, ring, session, ticket};
use crate::memory::copied::Copied;
use crate::memory::follow::{ours, own_stack};
use crate::memory::instruction::{add, increment};
use crate::memory::sys;
pub use book::forget;
use core::sync::atomic::Ordering;
use routine::Frame;
use routine::quick::{ASK, DONE, UNSEEN};
use vm::Memory;
use wire::calls::blocks::{Beside, Effect, Row, site_of, size_of_block, word};
use wire::calls::{Hook, Ring};

/// Blocks that a thread takes between two looks at the heartbeat.
const LOOK_EVERY: u64 = 4096;

/// How far below a function's arguments on the stack those of a function that it calls are, at most: a handler of a signal that interrupts it
/// is farther below.
const NEAR: u64 = 1024;

/// Handles the call of a function, if all that is needed is there. Otherwise it answers [`ASK`], and nothing is changed.
#[inline(always)]
pub fn enter_at_once(hook: &Hook, frame: &mut Frame, ring: &Ring) -> u64 {
    let number = session::number();
    let (effect, tally) = (Effect(hook.blocks), ring.tally.load(Ordering::Relaxed));
    let Some(book) = book::now() else {
        return ASK;
    };
    if tally == 0 || !ring::speaks(ring, thread(), number) {
        return ASK;
    }
    let stack = Frame::stack_arguments(frame).expose_provenance() as u64;
    if is_within(ring, stack) {
        return UNSEEN;
    }
    let left = ring.unwatched.load(Ordering::Relaxed);
    if effect.is_taking() {
        if left == 0 {
            return ASK;
        }
        ring.unwatched.store(left - 1, Ordering::Relaxed);
    }
    let mut known = 0;
    if effect.is_releasing() && frame.rdi != 0 {
        known = book::take(book, frame.rdi);
        if !effect.is_taking() {
            died(tally, known);
        }
    }
    if !effect.is_taking() {
        return UNSEEN;
    }
    frame.ticket = ticket::quick(number, ring, known);
    if effect.is_outermost() {
        ring.taking_for
            .store(frame.return_address, Ordering::Relaxed);
        ring.taking.store(stack, Ordering::Relaxed);
    }
    DONE
}

/// Handles the return of a function, as [`enter_at_once`] its call.
#[inline(always)]
pub fn leave_at_once(hook: &Hook, frame: &Frame, ring: &Ring, block: u64) -> u64 {
    let effect = Effect(hook.blocks);
    let tally = ring.tally.load(Ordering::Relaxed);
    if ticket::session(frame.ticket) != session::number()
        || ring.thread.load(Ordering::Relaxed) != thread()
        || effect.is_storing()
        || block == 0
        || tally == 0
    {
        return ASK;
    }
    let Some(book) = book::now() else {
        return ASK;
    };
    let Some(site) = book::site_at_once(book, frame.return_address) else {
        return ASK;
    };
    let Some(place) = book::place(book, block) else {
        return ASK;
    };
    if effect.is_outermost() {
        ring.taking.store(0, Ordering::Relaxed);
    }
    if effect.is_releasing() && frame.rdi != 0 {
        died(tally, frame.ticket[2]);
    }
    born(tally, place, site, size(effect, frame));
    DONE
}

/// Whether a call is made by a function that counts for both. One that was left by an exception (`operator new` throws) is still noted, but
/// where its return address was, its caller has put another since, or the stack pointer is above that.
#[inline(always)]
fn is_within(ring: &Ring, stack: u64) -> bool {
    let outer = ring.taking.load(Ordering::Relaxed);
    if outer.wrapping_sub(stack).wrapping_sub(1) >= NEAR {
        return false;
    }
    // SAFETY: it lies above this call's own arguments, at most `NEAR` bytes, in frames of the functions that have led here: the caller's
    // frames take more, or its stack is the one on which `outer` ran, of which that word is a part.
    unsafe { *own_stack::<u64>(outer - 8) == ring.taking_for.load(Ordering::Relaxed) }
}

/// The bytes that a call asks for.
#[inline(always)]
fn size(effect: Effect, frame: &Frame) -> u64 {
    let size = frame.argument(effect.size());
    match effect.factor() {
        Some(factor) => size.saturating_mul(frame.argument(factor)),
        None => size,
    }
}

/// Counts a block that was given back, by its word.
#[inline(always)]
fn died(tally: u64, known: u64) {
    // SAFETY: the rows are this thread's own and never unmapped; a site's number is less than `SITES`, the number of rows.
    unsafe {
        if known == 0 {
            increment(&raw mut (*ours::<Beside>(tally)).unknown);
            return;
        }
        let row = ours::<Row>(tally).add(site_of(known) as usize);
        increment(&raw mut (*row).dead);
        add(&raw mut (*row).dead_bytes, size_of_block(known));
    }
}

/// Counts a block that was taken, and notes it.
#[inline(always)]
fn born(tally: u64, place: *mut u64, site: u64, size: u64) {
    // SAFETY: `place` leads into a table, which is never unmapped, to the word of a block that only this thread knows. The rows as in `died`.
    unsafe {
        let before = place.replace(word(site, size));
        let row = ours::<Row>(tally).add(site as usize);
        increment(&raw mut (*row).born);
        add(&raw mut (*row).born_bytes, size_of_block(word(site, size)));
        if before != 0 {
            died(tally, before);
            increment(&raw mut (*ours::<Beside>(tally)).replaced);
        }
    }
}

/// Handles the call of a function, whatever is missing. `found`: the thread's ring, if it is known. Returns whether its return is to be seen.
#[cold]
#[inline(never)]
pub fn enter(hook: &Hook, frame: &mut Frame, found: Option<&'static Ring>) -> u64 {
    let Some(ring) = ring::mine_from(found, thread()) else {
        return 0;
    };
    if ring.unwatched.load(Ordering::Relaxed) == 0 {
        ring.unwatched.store(LOOK_EVERY, Ordering::Relaxed);
        pulse::look(sys::ticks());
    }
    // That look may have closed the gate.
    if session::number() == 0 || book::make(ring).is_none() {
        return 0;
    }
    match enter_at_once(hook, frame, ring) {
        DONE => 1,
        _ => 0,
    }
}

/// Handles the return of a function, whatever is missing.
#[cold]
#[inline(never)]
pub fn leave(hook: &Hook, frame: &Frame, result: u64) {
    let number = session::number();
    if number == 0 || ticket::session(frame.ticket) != number {
        return;
    }
    let (Some(ring), Some(book)) = (ring::mine(), book::now()) else {
        return;
    };
    let (effect, tally) = (Effect(hook.blocks), ring.tally.load(Ordering::Relaxed));
    if effect.is_outermost() {
        ring.taking.store(0, Ordering::Relaxed);
    }
    if tally == 0 {
        return;
    }
    let (known, size) = (frame.ticket[2], size(effect, frame));
    let block = match effect.is_storing() {
        true => stored(hook, frame, ring, result),
        false => result,
    };
    if block == 0 {
        if known != 0 && size == 0 {
            died(tally, known);
        } else if known != 0
            && let Some(place) = book::place(book, frame.rdi)
        {
            // SAFETY: the place is that of a block which was not given back after all, so only this thread writes it.
            unsafe { *place = known };
        }
        return;
    }
    if effect.is_releasing() && frame.rdi != 0 {
        died(tally, known);
    }
    let site = book::site(book, frame.return_address);
    match (site, book::room(book, block)) {
        (Some(site), Some(place)) => born(tally, place, site, size),
        // SAFETY: as in `died`.
        _ => unsafe { increment(&raw mut (*ours::<Beside>(tally)).unnoted) },
    }
}

/// The block that a function has stored where its first argument points to; 0 = it has failed, or that cannot be read any more.
fn stored(hook: &Hook, frame: &Frame, ring: &Ring, result: u64) -> u64 {
    if result as u32 != 0 {
        return 0;
    }
    let call = Hooked::new(hook, 0, frame, NO_VECTORS);
    let mut block = [0; 8];
    match Copied::above(call.stack, Some(ring)).read(frame.rdi, &mut block) {
        Ok(()) => u64::from_le_bytes(block),
        Err(_) => 0,
    }
}
