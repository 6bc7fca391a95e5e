//! Reading any address: what is there, what is not, and what a ring or a filter changes of it.

use super::*;
use crate::calls::ring::fixture::Own;
use crate::memory::follow::ours;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

const SIZE: u64 = PAGE as u64;

/// Whether copies are allowed is one word of the process, so tests take turns.
fn allowed(copies: u64) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    calls().copies.store(copies, Ordering::SeqCst);
    turn
}

/// Two pages of which the second cannot be read; the first holds a pattern.
struct Pages(u64);

impl Pages {
    fn new() -> Self {
        let at = sys::map(2 * SIZE).expect("memory");
        for offset in 0..SIZE {
            // SAFETY: the byte lies in the mapping.
            unsafe { ours::<u8>(at + offset).write(pattern(offset)) };
        }
        // SAFETY: the page is this fixture's own.
        unsafe { assert!(sys::map_over(at + SIZE, SIZE, 0)) };
        Pages(at)
    }

    fn expected(&self, offset: u64, length: usize) -> Vec<u8> {
        (offset..).take(length).map(pattern).collect()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this fixture's own.
        unsafe { sys::unmap(self.0, 2 * SIZE) };
    }
}

fn pattern(offset: u64) -> u8 {
    (offset * 13 + offset / 256) as u8
}

/// Pieces of every length at every place of a line are what is there, whether a line or the piece itself is copied.
#[test]
fn pieces_are_what_is_there() {
    let _turn = allowed(1);
    let pages = Pages::new();
    let memory = Copied::new();
    for offset in (0..1200).step_by(7) {
        for length in [1, 2, 8, 31, 255, 256, 257, 600] {
            let mut into = std::vec![0; length];
            memory.read(pages.0 + offset, &mut into).expect("readable");
            assert_eq!(into, pages.expected(offset, length), "{offset} {length}");
        }
    }
}

/// A piece that ends at the last byte of a page is read, one that goes a byte further is not.
#[test]
fn a_piece_ends_with_its_page() {
    let _turn = allowed(1);
    let pages = Pages::new();
    let memory = Copied::new();
    let mut into = [0; 16];
    memory
        .read(pages.0 + SIZE - 16, &mut into)
        .expect("readable");
    assert_eq!(into[..], pages.expected(SIZE - 16, 16));
    let at = pages.0 + SIZE - 15;
    let fault = memory.read(at, &mut into).expect_err("unmapped");
    assert_eq!(fault.at, at);
}

/// Nothing is read at addresses that no process has, and the address is told.
#[test]
fn nowhere_is_a_fault() {
    let _turn = allowed(1);
    let memory = Copied::new();
    for at in [0, 8, 0x0000_8000_0000_0000, u64::MAX - 300, u64::MAX - 7] {
        let mut into = [0; 4];
        assert_eq!(memory.read(at, &mut into).expect_err("nothing").at, at);
    }
}

/// A line that could not be copied is not remembered as if it had been.
#[test]
fn a_fault_is_not_remembered() {
    let _turn = allowed(1);
    let pages = Pages::new();
    let memory = Copied::new();
    let mut into = [0; 8];
    assert!(memory.read(pages.0 + SIZE, &mut into).is_err());
    assert!(sys::protect(pages.0 + SIZE, SIZE, sys::READ_WRITE));
    assert!(memory.read(pages.0 + SIZE, &mut into).is_ok());
}

/// More lines than are remembered are each read right, in whatever order they come.
#[test]
fn lines_do_not_mix() {
    let _turn = allowed(1);
    let pages = Pages::new();
    let memory = Copied::new();
    for round in 0..50u64 {
        let offset = (round * 5 % 9) * LINE as u64 + round;
        let mut into = [0; 9];
        memory.read(pages.0 + offset, &mut into).expect("readable");
        assert_eq!(into[..], pages.expected(offset, 9), "{round}");
    }
}

/// A line is read once: what changes there afterwards is not seen by the same visit, and is by the next one.
#[test]
fn a_visit_sees_a_line_as_it_was() {
    let _turn = allowed(1);
    let pages = Pages::new();
    let memory = Copied::new();
    let before = memory.u64(pages.0 + 8).expect("readable");
    // SAFETY: the word lies in the mapping.
    unsafe { ours::<u64>(pages.0 + 16).write(!before) };
    let expected = pages.expected(16, 8);
    let mut into = [0; 8];
    memory.read(pages.0 + 16, &mut into).expect("readable");
    assert_eq!(into[..], expected);
    let next = Copied::new();
    assert_eq!(next.u64(pages.0 + 16).expect("readable"), !before);
}

/// Where a filter forbids copies nothing is read, each try is counted, and nobody counts as copying afterwards.
#[test]
fn forbidden_copies_are_counted() {
    let _turn = allowed(0);
    let pages = Pages::new();
    let memory = Copied::new();
    let before = calls().uncopied.load(Ordering::Relaxed);
    let mut into = [0; 8];
    assert!(memory.read(pages.0, &mut into).is_err());
    assert!(memory.read(pages.0, &mut into).is_err());
    assert_eq!(calls().uncopied.load(Ordering::Relaxed), before + 2);
    assert_eq!(calls().copying.load(Ordering::SeqCst), 0);
}

/// The thread's own stack is read by plain loads: also where copies are forbidden.
#[test]
fn the_own_stack_needs_no_copy() {
    let _turn = allowed(0);
    let words = [0x1122_3344_5566_7788u64, 9, 10];
    let stack = (&raw const words).expose_provenance() as u64;
    let memory = Copied::above(stack + 8, None);
    assert_eq!(memory.u64(stack).expect("own"), 0x1122_3344_5566_7788);
}

/// Without a ring only the page of the return address counts as the own stack.
#[test]
fn without_a_ring_the_stack_is_one_page() {
    let memory = Copied::above(0x7fff_0000_0808, None);
    assert!(memory.is_own(0x7fff_0000_0800, 8));
    assert!(!memory.is_own(0x7fff_0000_07ff, 1));
    assert!(memory.is_own(0x7fff_0000_0ffe, 2));
    assert!(!memory.is_own(0x7fff_0000_0ffe, 3));
}

/// A ring says where the stack ends; nothing below the call and nothing behind the end is its own.
#[test]
fn a_ring_bounds_the_stack() {
    let own = Own::new(1 << 12);
    let ring = own.ring();
    ring.low.store(0x7fff_0000_0000, Ordering::Relaxed);
    ring.span.store(0x5000, Ordering::Relaxed);
    let memory = Copied::above(0x7fff_0000_1008, Some(ring));
    assert!(memory.is_own(0x7fff_0000_1000, 0x4000));
    assert!(!memory.is_own(0x7fff_0000_1000, 0x4001));
    assert!(!memory.is_own(0x7fff_0000_0ff8, 8));
}

/// A stack pointer outside of the ring's bounds, as on a coroutine's stack, leaves the one page.
#[test]
fn another_stack_is_one_page() {
    let own = Own::new(1 << 12);
    let ring = own.ring();
    ring.low.store(0x7fff_0000_0000, Ordering::Relaxed);
    ring.span.store(0x5000, Ordering::Relaxed);
    let memory = Copied::above(0x6000_0000_0108, Some(ring));
    assert!(memory.is_own(0x6000_0000_0100, 8));
    assert!(!memory.is_own(0x6000_0000_1000, 1));
}

/// A piece whose length passes the end of the address space is never the thread's own.
#[test]
fn lengths_do_not_wrap() {
    let memory = Copied::above(0x7fff_0000_0808, None);
    assert!(!memory.is_own(0x7fff_0000_0900, usize::MAX));
    assert!(!memory.is_own(u64::MAX, 8));
}
