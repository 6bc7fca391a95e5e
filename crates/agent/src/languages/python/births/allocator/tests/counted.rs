//! Blocks of a made-up 3.12 that are counted, by functions of its form.

use super::*;
use crate::languages::python::births::caller::{form, note, who};
use crate::languages::python::births::counting::{Held, PASSED, is_buried, is_counted};
use crate::languages::python::snapshot::reader;
use crate::shared::SNAPSHOT;
use core::cell::Cell;
use std::boxed::Box;
use std::sync::OnceLock;
use vm::python::{Facts, Form, Version};
use wire::State;

const SHIMS: u8 = Form::Shims as u8;

std::thread_local! {
    /// `_Py_tss_tstate`.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

unsafe extern "C" fn current() -> u64 {
    CURRENT.get()
}

/// Words of the VM's. They stay for good, because what is noted of who is counted does.
fn words() -> &'static mut [u64; 64] {
    Box::leak(Box::new([0; 64]))
}

fn address(words: &[u64]) -> u64 {
    words.as_ptr().expose_provenance() as u64
}

/// The main interpreter, of which the reader is noted.
fn main() -> u64 {
    static MAIN: OnceLock<u64> = OnceLock::new();
    *MAIN.get_or_init(|| {
        let (runtime, main) = (words(), address(words()));
        runtime[40 / 8 + 1] = main;
        let variable = CURRENT.with(Cell::as_ptr).expose_provenance() as u64;
        let mut facts = [0; Facts::WORDS];
        facts[..5].copy_from_slice(&[
            Version::new(3, 12, 0).packed(),
            address(runtime),
            8,
            current as *const () as u64,
            variable.wrapping_sub(thread_pointer()),
        ]);
        // The type of code objects, of which no flag is set.
        facts[11] = address(words());
        for (place, fact) in SNAPSHOT.facts.iter().zip(facts) {
            place.store(fact, Ordering::Relaxed);
        }
        CURRENT.set(state(main));
        let counted = reader().and_then(who).expect("it is counted");
        // SAFETY: the caller holds `PAGE`, and no function of ours is in a table.
        unsafe { note(counted) };
        main
    })
}

/// A state of the running thread, with a frame.
fn state(main: u64) -> u64 {
    let [state, cframe, frame, code] = [words(), words(), words(), words()];
    state[16 / 8] = main;
    state[56 / 8] = address(cframe);
    state[136 / 8] = thread_pointer();
    cframe[0] = address(frame);
    frame[0] = address(code);
    frame[56 / 8] = address(code) + 192;
    address(state)
}

/// A VM whose blocks are counted, in a thread that has its lock.
fn counted(test: impl FnOnce()) {
    let (_own, _one) = vm();
    CURRENT.set(state(main()));
    assert_eq!(form(), Form::Shims);
    crate::memory::bound::allow(u64::MAX);
    {
        let mut held = Held::wait().expect("nobody has it");
        let (births, ledger) = held.both();
        births.names.reader = reader();
        births.open(ledger).expect("memory");
    }
    let page = &CONTROL_PAGE;
    page.state.store(State::Open as u32, Ordering::Relaxed);
    // SAFETY: no other thread uses the made-up VM.
    assert!(unsafe { take() });
    page.hooked.store(1, Ordering::Relaxed);
    test();
    page.hooked.store(0, Ordering::Relaxed);
    page.state.store(State::Quiet as u32, Ordering::Relaxed);
    let mut held = Held::wait().expect("nobody has it");
    let (births, ledger) = held.both();
    births.forget(ledger);
    CURRENT.set(0);
}

/// The sizes of the living blocks that were taken by the made-up VM's callers.
fn living() -> Vec<u64> {
    let mut held = Held::wait().expect("nobody has it");
    let mut sizes = Vec::new();
    held.both().0.blocks.each(|_, size| sizes.push(size));
    sizes
}

#[test]
fn functions_of_a_form_count_without_a_call_what_was_seen_just_now() {
    counted(|| {
        let table = tables()[0];
        assert_eq!(table.malloc, malloc::<0, SHIMS> as *const () as u64);
        // SAFETY: ours, in front of the made-up VM's; the thread has the lock.
        unsafe {
            let block = malloc::<0, SHIMS>(table.ctx, 1);
            assert_eq!(living(), [1], "by the long way");
            malloc::<0, SHIMS>(table.ctx, 2);
            assert!(is_counted::<SHIMS>(KINDS[0], block + 0x200, 3));
            assert_eq!(living(), [1, 2, 3]);
            assert!(is_buried::<SHIMS>(block + 0x200));
            free::<0, SHIMS>(table.ctx, block + 0x10);
            assert_eq!(living(), [1]);
        }
    });
}

/// Each block by which is asked passes through. After so many that have passed ours take themselves out of the table, which is not to be done
/// for one by which is asked: the session goes on.
#[test]
fn to_ask_who_is_called_does_not_end_the_session() {
    counted(|| {
        // SAFETY: ours, in front of the made-up VM's; the thread has the lock.
        unsafe { malloc::<0, SHIMS>(77, 2) };
        assert_eq!(living(), [2]);
        cover();
        for before in 1..=12 {
            PASSED.store(1024 - before, Ordering::Relaxed);
            // SAFETY: no other thread uses the made-up VM.
            assert!(unsafe { are_all_called() });
            assert_eq!(living(), [2], "{before}");
        }
    });
}
