//! Asks an allocator that has taken malloc's place how much it has, in a copy of the program, which is ended afterwards.
//! Used by `child`.
//!
//! It takes locks to answer, and one that another thread had at the moment of the copy stays taken for ever: then the command's patience ends.

use super::{confined, pipe};
use crate::shared::SNAPSHOT;
use core::ffi::CStr;
use core::mem::transmute;
use core::sync::atomic::Ordering;
use wire::snapshot::Stage;
use wire::snapshot::allocator::{Asked, JEMALLOC, TCMALLOC, UNKNOWN};

type Mallctl = unsafe extern "C" fn(*const i8, *mut u64, *mut u64, *const u64, u64) -> i32;
type GetNumericProperty = unsafe extern "C" fn(*const i8, *mut u64) -> i32;

/// Asks, and says in `stage` how that went. In the child, which has no other thread.
pub fn run(write: u64) {
    let [which, function] = [&SNAPSHOT.asked[0], &SNAPSHOT.asked[1]];
    let (which, function) = (
        which.load(Ordering::Relaxed),
        function.load(Ordering::Relaxed),
    );
    if function == 0 || !confined::confine(write) {
        return confined::say(Stage::Refused);
    }
    if which == Asked::Jemalloc as u64 {
        // SAFETY: the command has found the function by its name; this is its type (`jemalloc/jemalloc.h`).
        let mallctl: Mallctl = unsafe { transmute(function) };
        let epoch = 1;
        // Figures are as old as this says.
        // SAFETY: the name ends with a zero, nothing is read, and a `uint64_t` of 8 bytes is written.
        unsafe {
            mallctl(
                name(c"epoch"),
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                &raw const epoch,
                8,
            )
        };
        ask(&JEMALLOC, |name, value| {
            let mut length = 8;
            // SAFETY: the name ends with a zero, `value` and `length` are live, and nothing is written.
            unsafe {
                mallctl(name, value, &raw mut length, core::ptr::null(), 0) == 0 && length == 8
            }
        });
    } else {
        // SAFETY: as above (`gperftools/malloc_extension_c.h`).
        let get: GetNumericProperty = unsafe { transmute(function) };
        // SAFETY: the name ends with a zero, and `value` is live.
        ask(&TCMALLOC, |name, value| unsafe { get(name, value) != 0 });
    }
    confined::say(Stage::Answered);
    pipe::go_on();
}

fn ask(questions: &[&CStr], get: impl Fn(*const i8, *mut u64) -> bool) {
    for (question, answer) in questions.iter().zip(&SNAPSHOT.answers) {
        let mut value = 0;
        let is_known = get(name(question), &raw mut value);
        answer.store(if is_known { value } else { UNKNOWN }, Ordering::Relaxed);
    }
}

fn name(text: &CStr) -> *const i8 {
    text.as_ptr()
}
