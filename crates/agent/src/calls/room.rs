//! The bounds of a thread's own stack, within which hooks run on it (`routine::room`). Used by `children` and `ring`.
//!
//! A thread's C library notes where the stack is that it made for the thread, and how long it is, in two adjacent words of the
//! thread's own block (`stackblock` and `stackblock_size` of glibc's `nptl/descr.h`; `map_base` and `map_size` of musl's
//! `src/internal/pthread_impl.h`). Their offset is not documented. They are recognised by this: the range that they describe
//! begins below the thread pointer and ends right above the block, which is true of no other two words in it.
//!
//! The first thread's stack was made by the kernel, and the command writes where it is.

use super::session::calls;
use crate::memory::copied::{Copied, may_copy};
use crate::memory::follow::kept;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::room::{NO_ROOM, ROOM, WORK_STACKS, head_of};
use vm::Memory;
use wire::PAGE;

/// Bytes of a thread's block that are searched: glibc's has the words at 1,680.
const SEARCHED: u64 = 0x800;
/// Limit of the bytes between the thread pointer and the end of its stack: the block, and musl's table of a thread's keys.
const BLOCK: u64 = 0x2000;
/// Limit of the pages at a stack's lower end that may be its guard.
const MOST_GUARD: u64 = 64;
/// Sizes in bytes that a thread's stack may have; two words with another size are not taken for a stack.
const SIZES: core::ops::Range<u64> = 2 * ROOM..1 << 40;

/// Returns the lowest stack pointer of a thread with which a hook runs on its stack, and how far above it the highest is.
/// `has_block`: see [`thread::has_block`](super::thread::has_block).
#[cold]
#[inline(never)]
pub fn of(thread: u64, has_block: bool) -> [u64; 2] {
    match has_block.then(|| made(thread)).flatten() {
        Some([low, size]) => between(low, low + size, thread),
        None => calls().stack,
    }
}

/// Returns the range that the C library made for the thread's stack: its begin, and its bytes.
fn made(thread: u64) -> Option<[u64; 2]> {
    let page = PAGE as u64;
    let end = (thread & !(page - 1)) + page;
    let memory = Copied::new();
    let word = |at: u64| {
        if at < end {
            // SAFETY: the word lies in the page of the thread pointer, where the running thread has its block: callers have found out that
            // it has one, and it keeps that.
            return Some(unsafe { *kept::<u64>(at) });
        }
        may_copy().then(|| memory.u64(at).ok())?
    };
    // The block may be shorter; the search ends where memory cannot be read.
    (thread..thread + SEARCHED)
        .step_by(8)
        .map_while(|at| Some([word(at)?, word(at + 8)?]))
        .find(|[low, size]| {
            let above = low.wrapping_add(*size).wrapping_sub(thread);
            SIZES.contains(size) && *low < thread && 0 < above && above <= BLOCK
        })
}

/// Returns the bounds within a range whose lower end may be a guard that cannot be written.
fn between(low: u64, end: u64, thread: u64) -> [u64; 2] {
    let page = PAGE as u64;
    let first = low.next_multiple_of(page);
    let pages = (0..MOST_GUARD).map(|number| first + number * page);
    let Some(first) = pages
        .take_while(|at| *at < end)
        .find(|at| sys::is_readable(*at))
    else {
        return NO_ROOM;
    };
    let low = first + ROOM;
    match thread.checked_sub(low) {
        Some(span) => [low, span],
        None => NO_ROOM,
    }
}

unsafe extern "C" {
    static trampoline_works: [AtomicU64; WORK_STACKS];
}

/// Runs in a child of fork, which has one thread: frees the work stacks that other threads used in the parent. Only the one on
/// which this runs, if any, is in use.
pub fn only_ours() {
    let here = 0u8;
    // SAFETY: the routine defines the symbol: the words at the begin of its work stacks, which are never unmapped. They are used
    // as atomics.
    let works = unsafe { &trampoline_works };
    let ours = head_of((&raw const here).addr().wrapping_sub(works.as_ptr().addr()) as u64);
    for (at, head) in (0u64..).step_by(8).zip(works) {
        if ours != Some(at) {
            head.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
