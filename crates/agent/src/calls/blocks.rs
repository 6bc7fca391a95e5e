//! Counts blocks of native allocators where `malloc` and its kin are called: births and deaths, by the place that the call returns to.
//! Layout and the way of a block: `wire::calls::blocks`.
//!
//! A block's word is written before its taker knows the block, and taken away before the allocator knows that it is free. So no two threads
//! change one word at a time, unless the program gives a block back twice, or overwrites where `posix_memalign` has stored it; then a block is
//! counted wrong. What a thread counts is in rows of its own, each changed by one instruction, which a handler of a signal cannot split.
//! A thread that has a dead one's address counts in that one's rows, until the dead one's ring is taken over; a call that it is in just then
//! still adds there, and of two additions in that instant, its own and the next owner's, one may be lost. The memory is mapped whoever adds.
//! Nothing here waits, and nothing of the guest is called.
//!
//! There are three ways, each of which does all that the one before does. Most calls of `malloc`, `calloc` and `free` find all they need in the
//! routine's own code (`routine::code::blocks`). What is not so simple, like `realloc`, goes by [`enter_at_once`] and [`leave_at_once`].
//! [`enter`] and [`leave`] make what is missing.
//!
//! Where the line of a script is wanted ([`want::PLACE`]), each call that takes a block goes by [`enter`], because the line is read before the
//! allocator runs: what `realloc` gives back may be the memory in which the VM notes its frames.
//!
//! Used by `call` and `quick`, and by `calls` when a session begins.

mod book;
mod layout;
mod memory;
#[cfg(all(test, not(miri)))]
mod tests;

use super::hooked::Hooked;
use super::thread::thread;
use super::{
    hooked::{NO_VECTORS, wanted},
    places, pulse, ring, session, ticket,
};
use crate::memory::copied::Copied;
use crate::memory::follow::own_stack;
use crate::memory::instruction::{add, increment};
use crate::memory::sys;
pub use book::forget;
use core::sync::atomic::{AtomicU64, Ordering};
pub use layout::LAYOUT;
use routine::Frame;
use routine::blocks::HIGHEST;
use routine::quick::{ASK, DONE, UNSEEN};
use routine::room::ROOM;
use session::calls;
use vm::Memory;
use wire::calls::blocks::{
    Beside, Book, Effect, FIRST_WRAPPER, WRAPPERS, is_of, site_of, size_of_block, word,
};
use wire::calls::{Hook, Ring, want};

/// Calls of a thread between two looks at the heartbeat.
const LOOK_EVERY: u64 = 256;

/// How far below a function's arguments on the stack those of a function that it calls are, at most: a handler of a signal that interrupts it
/// is farther below.
const NEAR: u64 = 1024;

/// The book, and where the running thread's tally is.
type Books = (&'static Book, u64);

/// Handles the call of a function, if all that is needed is there. Otherwise it answers [`ASK`], and nothing is changed.
#[inline(always)]
pub fn enter_at_once(hook: &Hook, frame: &mut Frame, ring: &Ring) -> u64 {
    let (number, thread) = (session::number(), thread());
    if wanted(hook) & want::PLACE != 0 {
        return ASK;
    }
    let Some(book) = book::now() else {
        return ASK;
    };
    let Some(tally) = book::tally_at_once(book, thread, number) else {
        return ASK;
    };
    if !ring::speaks(ring, thread, number) {
        return ASK;
    }
    let unwatched = &book::beside(tally).unwatched;
    let left = unwatched.load(Ordering::Relaxed);
    if !is_left(left) {
        return ASK;
    }
    unwatched.store(left - 1, Ordering::Relaxed);
    count_call(hook, frame, ring, number, (book, tally))
}

/// Whether so many calls may be made before the heartbeat is looked at. The routine counts to below 0.
#[inline(always)]
fn is_left(unwatched: u64) -> bool {
    unwatched.wrapping_sub(1) < LOOK_EVERY
}

/// Handles the call of a function, in a thread whose ring and tally these are.
#[inline(always)]
fn count_call(
    hook: &Hook,
    frame: &mut Frame,
    ring: &Ring,
    session: u32,
    (book, tally): Books,
) -> u64 {
    let effect = Effect(hook.blocks);
    // Not looked at is whether another function makes the call: the block of one that is given back by its own has no word any more, and a
    // handler of `operator new` gives others back.
    if !effect.is_taking() {
        died(tally, book::take(book, frame.rdi));
        return UNSEEN;
    }
    let stack = Frame::stack_arguments(frame).expose_provenance() as u64;
    let beside = book::beside(tally);
    if is_within(ring, beside, stack) {
        return UNSEEN;
    }
    let known = match effect.is_releasing() {
        true => book::take(book, frame.rdi),
        false => 0,
    };
    frame.ticket = ticket::quick(session, ring, known);
    if effect.is_outermost() {
        beside.inner.store(0, Ordering::Relaxed);
        beside
            .taking_for
            .store(frame.return_address, Ordering::Relaxed);
        beside.taking.store(stack, Ordering::Relaxed);
    }
    DONE
}

/// Handles the return of a function, as [`enter_at_once`] its call.
#[inline(always)]
pub fn leave_at_once(hook: &Hook, frame: &Frame, ring: &Ring, block: u64) -> u64 {
    let (effect, thread) = (Effect(hook.blocks), thread());
    let Some(book) = book::now() else {
        return ASK;
    };
    // It is read before the session's number: while that is the call's, so is the era.
    let era = book.era.load(Ordering::Acquire);
    let session = ticket::session(frame.ticket);
    if session != session::number()
        || ring.thread.load(Ordering::Relaxed) != thread
        || effect.is_storing()
        || block == 0
    {
        return ASK;
    }
    let Some(tally) = book::tally_at_once(book, thread, session) else {
        return ASK;
    };
    let site = match ticket::site(frame.ticket) {
        None => site_of_call(frame, |address| book::site_at_once(book, address)),
        known => known,
    };
    let Some(site) = site else {
        return ASK;
    };
    let Some(place) = book::word_at_once(book, block) else {
        return ASK;
    };
    if effect.is_outermost() {
        book::beside(tally).taking.store(0, Ordering::Relaxed);
    }
    if effect.is_releasing() {
        died(tally, frame.ticket[2]);
    }
    let born = Born {
        block,
        site,
        size: size(effect, frame),
        era,
        outermost: effect.is_outermost(),
    };
    born.count(tally, place);
    DONE
}

/// Whether a call is made by a function that counts for both, as far as that can be seen: on the thread's own stack. One that was left by an
/// exception (`operator new` throws) is still noted, but where its return address was, its caller has put another since, or the stack pointer
/// is above that.
#[inline(always)]
fn is_within(ring: &Ring, beside: &Beside, stack: u64) -> bool {
    let outer = beside.taking.load(Ordering::Relaxed);
    if outer.wrapping_sub(stack).wrapping_sub(1) >= NEAR {
        return false;
    }
    let low = ring.low.load(Ordering::Relaxed).wrapping_sub(ROOM);
    let span = ring.span.load(Ordering::Relaxed).wrapping_add(ROOM);
    // The stack of a coroutine may have been unmapped since, with another in its place that ends below `outer`.
    if stack.wrapping_sub(low) > span || (outer - 8).wrapping_sub(low) > span {
        return false;
    }
    // SAFETY: it lies above this call's own arguments, and both on the thread's own stack, of which all is mapped from its live frames upward.
    unsafe { *own_stack::<u64>(outer - 8) == beside.taking_for.load(Ordering::Relaxed) }
}

/// Whether blocks are what this session counts: the command has said how much memory that may take.
pub fn are_counted() -> bool {
    calls().blocks.most.load(Ordering::Relaxed) != u64::MAX
}

/// A thread is introduced, whose ring this is: a function that another one was in is none of its own.
pub fn begins(ring: &Ring, thread: u64) {
    let number = session::number();
    let tally = book::now().and_then(|book| book::tally(book, ring, thread, number));
    if let Some(tally) = tally {
        book::beside(tally).taking.store(0, Ordering::Relaxed);
    }
}

/// A thread has died that had a ring at this place, which is taken over: another that has its address now is introduced before it counts on.
pub fn ends(place: usize, thread: u64) {
    if let Some(book) = book::now() {
        book::forget_thread(book, place, thread);
    }
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

/// Counts a block that was given back, by its word; 0 = nothing is known of it.
#[inline(always)]
fn died(tally: u64, known: u64) {
    if known == 0 {
        return;
    }
    let row = book::row(tally, site_of(known));
    // SAFETY: rows are never unmapped, and who adds here is this thread; but for an instant (module), in which a sum may come out too low.
    unsafe {
        increment(&raw mut (*row).dead);
        add(&raw mut (*row).dead_bytes, size_of_block(known));
    }
}

/// The number of the site whose call this frame is, as `number` finds that of an address. `None` = it has none, or lies behind too many
/// functions that pass on what they are asked for.
#[inline(always)]
fn site_of_call(frame: &Frame, number: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    // The routine's own search is bounded from there, too.
    let below = (&raw const frame.return_address).expose_provenance() as u64 - 8;
    let mut above = 8;
    while above < HIGHEST as u64 {
        // SAFETY: the first is the frame's own; the others are in frames that the stack has above it, whose functions this call returns into:
        // what was a wrapper and is unloaded leads farther than `HIGHEST`.
        let address = unsafe { *own_stack::<u64>(below + above) };
        let number = number(address)?;
        let Some(wrapper) = number.checked_sub(FIRST_WRAPPER as u64) else {
            return Some(number);
        };
        let depth = &calls().blocks.depths[wrapper as usize % WRAPPERS];
        above = (above + 8).saturating_add(depth.load(Ordering::Relaxed));
    }
    None
}

/// Adds one to what this thread counts beside rows.
#[inline(always)]
fn one_more(of: &AtomicU64) {
    // SAFETY: it is never unmapped; else as in `died`.
    unsafe { increment(of.as_ptr()) };
}

/// A block that was taken.
struct Born {
    block: u64,
    site: u64,
    size: u64,
    era: u64,
    /// Whether it was taken by a function that may have called another for it.
    outermost: bool,
}

impl Born {
    /// Counts it, and notes it in its word.
    #[inline(always)]
    fn count(&self, tally: u64, place: &AtomicU64) {
        let now = word(self.site, self.size, self.era);
        let before = place.load(Ordering::Relaxed);
        place.store(now, Ordering::Relaxed);
        let row = book::row(tally, self.site);
        // SAFETY: as in `died`.
        unsafe {
            increment(&raw mut (*row).born);
            add(&raw mut (*row).born_bytes, size_of_block(now));
        }
        let beside = book::beside(tally);
        if before != 0 && is_of(before, self.era) {
            self.replaces(before, tally);
        }
        if self.outermost || beside.taking.load(Ordering::Relaxed) != 0 {
            beside.inner.store(self.block, Ordering::Relaxed);
        }
    }

    /// It is where another block is, by its word: the same one, which a function has taken that was not seen to be within this one
    /// ([`is_within`]); or one whose death was not seen.
    #[inline(always)]
    fn replaces(&self, before: u64, tally: u64) {
        let beside = book::beside(tally);
        if self.outermost && beside.inner.load(Ordering::Relaxed) == self.block {
            let row = book::row(tally, site_of(before));
            // SAFETY: as in `count`; the row is the one to which the inner birth was added.
            unsafe {
                add(&raw mut (*row).born, u64::MAX);
                let bytes = size_of_block(before).wrapping_neg();
                add(&raw mut (*row).born_bytes, bytes);
            }
            return;
        }
        died(tally, before);
        one_more(&beside.replaced);
    }
}

/// Handles the call of a function, whatever is missing. `found`: the thread's ring, if it is known. Returns whether its return is to be seen.
#[cold]
#[inline(never)]
pub fn enter(hook: &Hook, frame: &mut Frame, found: Option<&'static Ring>) -> u64 {
    let thread = thread();
    let Some(ring) = ring::mine_from(found, thread) else {
        // A thread for which no ring could be made was counted there; one that may not write to its own was not.
        if ring::known().is_some() {
            calls().without_ring.fetch_add(1, Ordering::Relaxed);
        }
        return 0;
    };
    let number = session::number();
    if number == 0 {
        return 0;
    }
    let Some((book, tally)) = book::make(ring, thread, number) else {
        calls().without_ring.fetch_add(1, Ordering::Relaxed);
        return 0;
    };
    let unwatched = &book::beside(tally).unwatched;
    let left = unwatched.load(Ordering::Relaxed);
    if is_left(left) {
        unwatched.store(left - 1, Ordering::Relaxed);
    } else {
        unwatched.store(LOOK_EVERY, Ordering::Relaxed);
        pulse::look(sys::ticks());
        // That look may have closed the gate.
        if session::number() != number {
            return 0;
        }
    }
    if count_call(hook, frame, ring, number, (book, tally)) != DONE {
        return 0;
    }
    if wanted(hook) & want::PLACE != 0 {
        note_lines(book, frame, ring);
    }
    1
}

/// Notes in a call's ticket the site with the lines of the script that runs, if there are any.
fn note_lines(book: &Book, frame: &mut Frame, ring: &Ring) {
    let lines = places::of_block(ring);
    if lines == 0 {
        return;
    }
    if let Some(site) = site_of_call(frame, |address| book::site(book, address)) {
        let site = book::site_with_lines(book, site, ring, lines);
        ticket::keep_site(&mut frame.ticket, site);
    }
}

/// Handles the return of a function, whatever is missing.
#[inline(never)]
pub fn leave(hook: &Hook, frame: &Frame, result: u64) {
    let book = book::now();
    let era = book.map_or(0, |book| book.era.load(Ordering::Acquire));
    let number = session::number();
    if number == 0 || ticket::session(frame.ticket) != number {
        return;
    }
    let ring = ring::mine();
    let found = book.zip(ring).and_then(|(book, ring)| {
        let tally = book::tally(book, ring, thread(), number)?;
        Some((book, ring, tally))
    });
    let Some((book, ring, tally)) = found else {
        calls().without_ring.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let (effect, beside) = (Effect(hook.blocks), book::beside(tally));
    if effect.is_outermost() {
        beside.taking.store(0, Ordering::Relaxed);
    }
    let (known, size) = (frame.ticket[2], size(effect, frame));
    let block = match effect.is_storing() {
        true => stored(hook, frame, ring, result),
        false => Some(result),
    };
    if block == Some(0) {
        if known != 0 && size == 0 {
            died(tally, known);
        } else if known != 0
            && let Some(place) = book::word_for(book, frame.rdi)
        {
            // The block was not given back after all.
            place.store(known, Ordering::Relaxed);
        }
        return;
    }
    if effect.is_releasing() {
        died(tally, known);
    }
    let born = block.and_then(|block| {
        let site = match ticket::site(frame.ticket) {
            None => site_of_call(frame, |address| book::site(book, address))?,
            Some(known) => known,
        };
        let place = book::word_for(book, block)?;
        let outermost = effect.is_outermost();
        Some((
            Born {
                block,
                site,
                size,
                era,
                outermost,
            },
            place,
        ))
    });
    match born {
        Some((born, place)) => born.count(tally, place),
        None => one_more(&beside.unnoted),
    }
}

/// The block that a function has stored where its first argument points to; 0 = it has failed. `None` = that cannot be read.
fn stored(hook: &Hook, frame: &Frame, ring: &Ring, result: u64) -> Option<u64> {
    if result as u32 != 0 {
        return Some(0);
    }
    let call = Hooked::new(hook, 0, frame, NO_VECTORS);
    let mut block = [0; 8];
    let read = Copied::above(call.stack, Some(ring)).read(frame.rdi, &mut block);
    read.ok().map(|()| u64::from_le_bytes(block))
}
