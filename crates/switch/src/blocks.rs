//! The blocks of coroutines ([`Base`]), and their numbers, as a thread has them at hand.
//!
//! A block that is free stays with the thread that freed it, up to [`KEPT`] of them, and a thread takes [`NUMBERS`] numbers
//! at a time. So to make a coroutine takes neither the allocator nor an atomic instruction, which would be half of its price.
//!
//! Each function that uses the thread's list is a call (`inline(never)`), and hands out no address of the list. Inlined into
//! a body, it would let the compiler compute the list's address once for all uses in that body, also for those after a
//! suspend from which a [`SendCoroutine`](crate::SendCoroutine) goes on in another thread.

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::boxed::Box;

use crate::arch::Base;
use crate::error::Error;

/// The most free blocks that a thread keeps.
const KEPT: usize = 64;

/// How many numbers a thread takes at once.
const NUMBERS: u64 = 64;

/// The number that the next thread takes.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A block that nobody uses.
struct Free {
    next: Option<NonNull<Free>>,
}

const _: () = assert!(size_of::<Free>() <= size_of::<Base>());

/// What a thread has at hand. It has no destructor, so that the two functions that matter need not ask whether it has run.
struct Near {
    free: Cell<Option<NonNull<Free>>>,
    /// How many more blocks it may keep: none before [`ENDING`] is in place, and none after it was dropped.
    room: Cell<usize>,
    number: Cell<u64>,
    /// One past the last of its numbers.
    end: Cell<u64>,
}

std::thread_local! {
    static NEAR: Near = const {
        Near { free: Cell::new(None), room: Cell::new(0), number: Cell::new(0), end: Cell::new(0) }
    };
    static ENDING: Ending = const { Ending { begun: Cell::new(false) } };
}

/// Empties the list when its thread ends.
struct Ending {
    /// Whether the thread keeps blocks.
    begun: Cell<bool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        NEAR.with(|near| {
            near.room.set(0);
            while let Some(block) = near.free.get() {
                // SAFETY: a block of the list came from `allocate` and is no one else's.
                unsafe {
                    near.free.set((*block.as_ptr()).next);
                    deallocate(block.as_ptr().cast());
                }
            }
        });
    }
}

/// Returns a block and a number that no other coroutine has. To be freed by [`free`].
#[inline(always)]
pub fn take() -> Result<(*mut Base, u64), Error> {
    match take_near() {
        (Some(block), number) => Ok((block.as_ptr().cast(), number)),
        (None, number) => Ok((allocate::<Base>()?, number)),
    }
}

/// Returns a block of this thread, if it has one, and a number. Two words, which are returned in registers.
#[inline(never)]
fn take_near() -> (Option<NonNull<Free>>, u64) {
    NEAR.with(|near| {
        let number = match near.number.get() {
            number if number < near.end.get() => number,
            _ => more_numbers(near),
        };
        near.number.set(number + 1);
        let block = near.free.get().inspect(|block| {
            // SAFETY: a block of the list holds a `Free`.
            near.free.set(unsafe { (*block.as_ptr()).next });
            near.room.set(near.room.get() + 1);
        });
        (block, number)
    })
}

/// Returns a number for a coroutine whose block is another's.
#[cfg(feature = "capi")]
pub fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
fn more_numbers(near: &Near) -> u64 {
    let number = NEXT.fetch_add(NUMBERS, Ordering::Relaxed);
    near.end.set(number + NUMBERS);
    number
}

/// Frees a block.
///
/// # Safety
///
/// It must come from [`take`], on whatever thread, and not be used again.
#[inline(never)]
pub unsafe fn free(block: *mut Base) {
    NEAR.with(|near| {
        let Some(room) = near.room.get().checked_sub(1) else {
            // SAFETY: the caller's promise.
            return unsafe { free_without_room(block) };
        };
        near.room.set(room);
        let next = near.free.get();
        let block = block.cast::<Free>();
        // SAFETY: the caller hands over a block, in which there is room for a `Free`.
        unsafe { block.write(Free { next }) };
        near.free.set(NonNull::new(block));
    });
}

/// As [`free`], where the thread has no room: it keeps none yet, or enough, or it is ending.
///
/// # Safety
///
/// As [`free`].
#[cold]
#[inline(never)]
unsafe fn free_without_room(block: *mut Base) {
    if ENDING.try_with(|ending| ending.begun.replace(true)) == Ok(false) {
        NEAR.with(|near| near.room.set(KEPT));
    }
    // SAFETY: the caller's promise.
    unsafe { deallocate(block) };
}

#[cold]
unsafe fn deallocate(block: *mut Base) {
    // SAFETY: the caller promises a block from `allocate` that nobody uses.
    drop(unsafe { Box::from_raw(block.cast::<MaybeUninit<Base>>()) });
}

/// Allocates a block for a `T`, to be freed as a box. It is not a box from the start, because that aborts when there is
/// no memory.
pub fn allocate<T>() -> Result<*mut T, Error> {
    const { assert!(size_of::<T>() > 0) };
    let layout = Layout::new::<T>();
    // SAFETY: the layout has a size.
    let block = unsafe { std::alloc::alloc(layout) };
    if ptr::eq(block, ptr::null()) {
        return Err(Error::OutOfMemory {
            asked: layout.size(),
        });
    }
    Ok(block.cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    #[test]
    fn blocks_and_numbers_are_one_coroutines_at_a_time() {
        let all: Vec<Vec<(usize, u64)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut blocks = Vec::new();
                        for round in 0..3 {
                            let more = (0..KEPT * 2).map(|_| take().expect("a block"));
                            blocks.extend(
                                more.map(|(block, number)| (block.expose_provenance(), number)),
                            );
                            // Half of them is used again in the next round.
                            if round < 2 {
                                for (block, _) in blocks.drain(KEPT..) {
                                    // SAFETY: taken above, and gone from the list.
                                    unsafe { free(ptr::with_exposed_provenance_mut(block)) };
                                }
                            }
                        }
                        blocks
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        let count = all.iter().map(Vec::len).sum::<usize>();
        let blocks: HashSet<usize> = all.iter().flatten().map(|(block, _)| *block).collect();
        let numbers: HashSet<u64> = all.iter().flatten().map(|(_, number)| *number).collect();
        assert_eq!((blocks.len(), numbers.len()), (count, count));
        for block in blocks {
            // SAFETY: each was taken by a thread that has ended, and is freed once.
            unsafe { free(ptr::with_exposed_provenance_mut(block)) };
        }
    }
}
