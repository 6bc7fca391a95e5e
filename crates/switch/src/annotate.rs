//! Telling AddressSanitizer, ThreadSanitizer and Valgrind which stack runs.
//!
//! Each tool keeps a picture of "the" stack of a thread and takes a jump of `rsp` for an error, so
//! each wants to be told: ASan before and after every switch (with the bounds of the stack it is
//! about to see), TSan before every switch (its clocks are per fiber), Valgrind once for each stack.
//! Without their features these functions are empty.
//!
//! What must be remembered between two calls is in [`Base::notes`]: 0 and 1 bounds of the resumer's
//! stack (ASan); 2 the fiber (TSan) or the stack's number (Valgrind); 3 the resumer's fiber (TSan).

// Each tool uses some of the arguments and none uses all; what is last in a function depends on the
// features.
#![allow(unused_variables, clippy::needless_return)]

use crate::arch::Base;

#[cfg(all(feature = "tsan", feature = "valgrind"))]
compile_error!("a program under Valgrind cannot have ThreadSanitizer in it");

#[cfg(feature = "asan")]
unsafe extern "C" {
    fn __sanitizer_start_switch_fiber(fake: *mut usize, bottom: usize, size: usize);
    fn __asan_unpoison_memory_region(at: usize, size: usize);
    fn __sanitizer_finish_switch_fiber(fake: usize, old_bottom: *mut usize, old_size: *mut usize);
}

#[cfg(feature = "tsan")]
unsafe extern "C" {
    fn __tsan_get_current_fiber() -> usize;
    fn __tsan_create_fiber(flags: u32) -> usize;
    fn __tsan_destroy_fiber(fiber: usize);
    fn __tsan_switch_to_fiber(fiber: usize, flags: u32);
}

/// Valgrind's client requests VG_USERREQ__STACK_REGISTER and _DEREGISTER (valgrind.h).
#[cfg(feature = "valgrind")]
fn client_request(request: usize, first: usize, second: usize) -> usize {
    let block = [request, first, second, 0, 0, 0];
    let answer: usize;
    // SAFETY: the four rotations add up to 128 bits and the exchange is of rbx with itself: outside
    // Valgrind nothing happens. Inside, it reads the block and writes rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const block,
            inout("rdx") 0usize => answer,
            inout("rdi") 0usize => _,
            options(nostack),
        );
    }
    answer
}

/// What the side that goes away keeps on its own stack until it is back.
pub struct Departed {
    #[cfg(feature = "asan")]
    fake: usize,
}

/// A coroutine was made on this stack.
///
/// # Safety
///
/// For all functions here: `base` is the block of a live coroutine that only this thread uses now.
#[inline(always)]
pub unsafe fn made(base: *mut Base) {
    // SAFETY: the caller promises a live Base; the runtimes only record what they are given.
    #[cfg(any(feature = "asan", feature = "tsan", feature = "valgrind"))]
    unsafe {
        // The last frames of the stack's previous owner were left, not returned from.
        #[cfg(feature = "asan")]
        __asan_unpoison_memory_region((*base).limit, (*base).top - (*base).limit);
        #[cfg(feature = "tsan")]
        {
            (*base).notes[2] = __tsan_create_fiber(0);
        }
        #[cfg(feature = "valgrind")]
        {
            (*base).notes[2] = client_request(0x1501, (*base).limit, (*base).top - 1);
        }
    }
}

/// The coroutine is gone; nothing runs on its stack any more.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn gone(base: *mut Base) {
    // SAFETY: as in `made`, which filled notes[2].
    #[cfg(any(feature = "tsan", feature = "valgrind"))]
    unsafe {
        #[cfg(feature = "tsan")]
        __tsan_destroy_fiber((*base).notes[2]);
        #[cfg(feature = "valgrind")]
        client_request(0x1502, (*base).notes[2], 0);
    }
}

/// The resumer is about to switch in.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn before_resume(base: *mut Base) -> Departed {
    // SAFETY: the caller promises a live Base, whose bounds are those of the stack switched to.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    unsafe {
        #[cfg(feature = "tsan")]
        {
            (*base).notes[3] = __tsan_get_current_fiber();
            __tsan_switch_to_fiber((*base).notes[2], 0);
        }
        #[cfg(feature = "asan")]
        {
            let mut fake = 0;
            __sanitizer_start_switch_fiber(&mut fake, (*base).limit, (*base).top - (*base).limit);
            return Departed { fake };
        }
    }
    #[cfg(not(feature = "asan"))]
    Departed {}
}

/// The resumer is back.
#[inline(always)]
pub fn after_resume(departed: Departed) {
    // SAFETY: `fake` is what start_switch_fiber gave this stack.
    #[cfg(feature = "asan")]
    unsafe {
        __sanitizer_finish_switch_fiber(
            departed.fake,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        );
    }
}

/// The coroutine runs, for the first time (`None`) or again.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn arrived(base: *mut Base, departed: Option<Departed>) {
    // SAFETY: the runtime writes the bounds of the stack just left to the two notes.
    #[cfg(feature = "asan")]
    unsafe {
        let [bottom, size, ..] = &mut (*base).notes;
        __sanitizer_finish_switch_fiber(departed.map_or(0, |d| d.fake), bottom, size);
    }
}

/// The coroutine is about to switch back, for good if `last`.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn before_suspend(base: *mut Base, last: bool) -> Departed {
    // SAFETY: notes 0, 1 and 3 were filled on the way in (`arrived`, `before_resume`).
    #[cfg(any(feature = "asan", feature = "tsan"))]
    unsafe {
        #[cfg(feature = "tsan")]
        __tsan_switch_to_fiber((*base).notes[3], 0);
        #[cfg(feature = "asan")]
        {
            let mut fake = 0;
            let keep = if last {
                core::ptr::null_mut()
            } else {
                &raw mut fake
            };
            __sanitizer_start_switch_fiber(keep, (*base).notes[0], (*base).notes[1]);
            return Departed { fake };
        }
    }
    #[cfg(not(feature = "asan"))]
    Departed {}
}
