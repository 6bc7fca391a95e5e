//! The bounds of a thread's own stack, within which hooks run on it (`routine::room`).
//!
//! A thread's C library puts down where the stack is that it made for it, and how long, in two words behind each other
//! of the thread's own block (`stackblock` and `stackblock_size` of glibc's `nptl/descr.h`; `map_base` and `map_size` of
//! musl's `src/internal/pthread_impl.h`). Where in the block is not said anywhere. But a word and the next one are
//! these two where the range that they tell begins below the thread pointer and ends right above the block: nothing else
//! in it does.
//!
//! The first thread's stack is the kernel's, and the command says where that is.

use super::session::calls;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::room::{NO_ROOM, ROOM, WORK_STACKS, head_of};
use wire::PAGE;

/// Bytes of a thread's block that are searched: glibc's has the words at 1,680.
const SEARCHED: u64 = 0x800;
/// What may lie between the thread pointer and the end of its stack: the block, and musl's table of a thread's keys.
const BLOCK: u64 = 0x2000;
/// The most of a stack's lower end that may be its guard, in pages.
const MOST_GUARD: u64 = 64;
/// Bytes that a thread's stack may have; a pair of words with another size is not taken for a stack.
const SIZES: core::ops::Range<u64> = 2 * ROOM..1 << 40;

/// The lowest stack pointer of a thread with which a hook runs on its stack, and how far above it the highest is. `has_block`: see
/// [`thread::has_block`](super::thread::has_block).
#[cold]
#[inline(never)]
pub fn of(thread: u64, has_block: bool) -> [u64; 2] {
    match has_block.then(|| made(thread)).flatten() {
        Some([low, size]) => between(low, low + size, thread),
        None => calls().stack,
    }
}

/// The range that the C library made for the thread's stack: its begin, and its bytes.
fn made(thread: u64) -> Option<[u64; 2]> {
    let page = PAGE as u64;
    let end = thread + SEARCHED;
    let crosses = thread / page != (end - 1) / page;
    let end = if crosses && !sys::is_readable(end - 1) {
        end & !(page - 1)
    } else {
        end
    };
    let words = (thread..end.saturating_sub(8)).step_by(8);
    words
        // SAFETY: within the thread's block, or in a page that can be read.
        .map(|at| unsafe { *(at as *const [u64; 2]) })
        .find(|[low, size]| {
            let above = low.wrapping_add(*size).wrapping_sub(thread);
            SIZES.contains(size) && *low < thread && 0 < above && above <= BLOCK
        })
}

/// Within a range whose lower end may be a guard that is not there to be written.
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

/// In a child of fork, where no other thread is: the work stacks that others used in the parent are free. Ours is the one
/// that we run on, if any.
pub fn only_ours() {
    let here = 0u8;
    // SAFETY: the routine's, at the begin of what is never unmapped.
    let works = unsafe { &trampoline_works };
    let ours = head_of((&raw const here).addr().wrapping_sub(works.as_ptr().addr()) as u64);
    for (at, head) in (0u64..).step_by(8).zip(works) {
        if ours != Some(at) {
            head.store(0, Ordering::Relaxed);
        }
    }
}
