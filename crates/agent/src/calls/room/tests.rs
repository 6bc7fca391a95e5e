//! The bounds of stacks, of mappings that a test makes.

use super::*;
use crate::memory::sys;

const SIZE: u64 = PAGE as u64;

/// The lowest stack pointer leaves the room that a hook needs, and the highest is the thread pointer.
#[test]
fn a_stack_leaves_room_for_a_hook() {
    let pages = 4 + ROOM / SIZE;
    let at = sys::map(pages * SIZE).expect("memory");
    let thread = at + pages * SIZE - 256;
    assert_eq!(
        between(at, at + pages * SIZE, thread),
        [at + ROOM, thread - at - ROOM]
    );
    // SAFETY: the mapping is this test's own.
    unsafe { sys::unmap(at, pages * SIZE) };
}

/// Guard pages at the lower end are not part of the stack.
#[test]
fn guard_pages_are_left_out() {
    let pages = 8 + ROOM / SIZE;
    let at = sys::map(pages * SIZE).expect("memory");
    assert!(sys::protect(at, 3 * SIZE, 0));
    let thread = at + pages * SIZE - 256;
    let low = at + 3 * SIZE + ROOM;
    assert_eq!(between(at, at + pages * SIZE, thread), [low, thread - low]);
    // SAFETY: the mapping is this test's own.
    unsafe { sys::unmap(at, pages * SIZE) };
}

/// A begin within a page counts from the next page on.
#[test]
fn a_begin_within_a_page_is_rounded_up() {
    let pages = 4 + ROOM / SIZE;
    let at = sys::map(pages * SIZE).expect("memory");
    let thread = at + pages * SIZE - 256;
    let low = at + SIZE + ROOM;
    assert_eq!(
        between(at + 1, at + pages * SIZE, thread),
        [low, thread - low]
    );
    // SAFETY: the mapping is this test's own.
    unsafe { sys::unmap(at, pages * SIZE) };
}

/// A stack that cannot be read at all, or that is all guard, has no room.
#[test]
fn a_stack_that_cannot_be_read_has_no_room() {
    let at = sys::map(100 * SIZE).expect("memory");
    assert!(sys::protect(at, 100 * SIZE, 0));
    assert_eq!(between(at, at + 100 * SIZE, at + 99 * SIZE), NO_ROOM);
    // SAFETY: the mapping is this test's own.
    unsafe { sys::unmap(at, 100 * SIZE) };
}

/// A stack smaller than what a hook needs has no room.
#[test]
fn a_small_stack_has_no_room() {
    let at = sys::map(2 * SIZE).expect("memory");
    assert_eq!(between(at, at + 2 * SIZE, at + ROOM - 1), NO_ROOM);
    // SAFETY: the mapping is this test's own.
    unsafe { sys::unmap(at, 2 * SIZE) };
}

/// A thread without a block has the bounds that the command wrote, which are none here.
#[test]
fn a_thread_without_a_block_has_what_the_command_says() {
    assert_eq!(of(0x7000, false), calls().stack);
}

/// The running thread, which libc has made, is found to have a stack, and a variable on it lies within.
#[test]
#[cfg_attr(miri, ignore = "Miri's threads have no block of a libc")]
fn the_stack_of_a_thread_is_found() {
    let found = std::thread::spawn(|| {
        let here = 0u8;
        let thread = crate::calls::thread::thread_pointer();
        let within = |[low, span]: [u64; 2]| {
            let at = (&raw const here).expose_provenance() as u64;
            at.wrapping_sub(low) < span
        };
        (made(thread).is_some(), within(of(thread, true)))
    });
    assert_eq!(found.join().expect("it ends"), (true, true));
}
