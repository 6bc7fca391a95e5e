//! Unwinders pass through the routine's frame.

use std::ffi::c_void;
use std::path::Path;
use std::sync::OnceLock;

use routine::frame::COPIED;
use routine::unwind::{FIND_FDE, LIBRARY};

use crate::guest::{
    Hook, Library, calls, count, trampoline_call_through, trampoline_fde, trampoline_find_fde, turn,
};

#[repr(C)]
#[derive(Default, Debug, PartialEq)]
struct Bases {
    text: usize,
    data: usize,
    function: usize,
}

fn libgcc() -> &'static Library {
    static LIBRARY_: OnceLock<Library> = OnceLock::new();
    LIBRARY_.get_or_init(|| Library::load(Path::new(LIBRARY)))
}

fn answer(pc: u64) -> (u64, Bases) {
    // SAFETY: its type in libgcc.
    let find: extern "C" fn(*const c_void, *mut Bases) -> u64 =
        unsafe { std::mem::transmute(libgcc().address(FIND_FDE)) };
    let mut bases = Bases::default();
    let fde = find(pc as *const c_void, &mut bases);
    (fde, bases)
}

fn answering() -> Hook {
    let routine = trampoline_find_fde as *const () as u64;
    libgcc().hook_with(FIND_FDE, 0, 0, routine)
}

#[test]
fn the_unwinder_is_told_our_rules_and_keeps_its_own() {
    let _turn = turn();
    let routine = trampoline_call_through as *const () as u64;
    let strange = calls().address("six");
    let known = answer(strange);
    assert_ne!(known.0, 0, "a function of a loaded library");
    assert_eq!(
        answer(routine + 100).0,
        0,
        "the routine is unknown to the loader"
    );
    let answering = answering();
    for pc in [routine, routine + 100] {
        let (fde, bases) = answer(pc);
        assert_eq!(fde, (&raw const trampoline_fde).addr() as u64);
        assert_eq!(bases.function as u64, routine);
    }
    assert_eq!(answer(strange), known);
    drop(answering);
    assert_eq!(answer(routine + 100).0, 0);
}

#[test]
fn exceptions_pass_through_live_frames() {
    let _turn = turn();
    let library = calls();
    let _answering = answering();
    let hook = library.hook("throws", 0, COPIED);
    assert_eq!(library.check("check_exceptions"), 0, "line of calls.cpp");
    assert_eq!(
        count(),
        10 * (1..=20).sum::<usize>(),
        "entries only: none returned"
    );
    hook.lift();
}

#[test]
fn backtrace_sees_every_frame_below_ours() {
    let _turn = turn();
    let library = calls();
    // SAFETY: the fixture's function of that type.
    let frames: extern "C" fn() -> i32 = unsafe { std::mem::transmute(library.address("frames")) };
    let bare = frames();
    let hook = library.hook("walks", 0, COPIED);
    let cut = frames();
    let answering = answering();
    let whole = frames();
    assert!(
        cut < bare,
        "without the answer it ends at our first frame: {cut} of {bare}"
    );
    assert_eq!(
        whole,
        bare + 11,
        "a frame of ours above each of the eleven calls"
    );
    drop(answering);
    hook.lift();
}
