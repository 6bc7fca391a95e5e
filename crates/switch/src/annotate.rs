//! Notifies AddressSanitizer, ThreadSanitizer and Valgrind which stack runs.
//!
//! Each tool keeps the bounds of "the" stack of a thread and takes a jump of `rsp` for an error, so each must be
//! notified: ASan before and after every switch (with the bounds of the stack it is about to see), TSan before every
//! switch (its clocks are per fiber), Valgrind once for each stack. Without their features these functions are empty.
//!
//! What must be remembered between two calls is in [`Notes`]. A coroutine need not suspend on its own stack: one that
//! it has resumed may suspend it. So the stack on which it goes on is noted, too.

// Each tool uses some of the arguments and none uses all; which expression is last in a function depends on the
// features.
#![allow(unused_variables, clippy::needless_return)]

use crate::arch::Base;

#[cfg(all(feature = "tsan", any(feature = "asan", feature = "valgrind")))]
compile_error!("a program with ThreadSanitizer can have no other of these tools");

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

/// What the tools need to know of each coroutine between two switches.
#[derive(Default)]
pub struct Notes {
    /// Lowest address and size of the stack on which the coroutine is suspended, and of the resumer's.
    #[cfg(feature = "asan")]
    stacks: [(usize, usize); 2],
    /// ThreadSanitizer's fibers: the coroutine's own, the one that it is suspended in, and the resumer's.
    #[cfg(feature = "tsan")]
    fibers: [usize; 3],
    /// Valgrind's number for the stack.
    #[cfg(feature = "valgrind")]
    number: usize,
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

/// What the side that is left keeps on its own stack until it runs again.
pub struct Departed {
    #[cfg(feature = "asan")]
    fake: usize,
}

/// Notes that a coroutine was made on this stack; its bounds are in `base`.
///
/// # Safety
///
/// For all functions here: `base` is the block of a live coroutine that only this thread uses now.
#[inline(always)]
pub unsafe fn made(base: *mut Base) {
    // SAFETY: the caller promises a live Base; the runtimes only record what they are given.
    unsafe {
        (&raw mut (*base).notes).write(Notes::default());
        #[cfg(feature = "asan")]
        {
            let stack = ((*base).limit, (*base).top - (*base).limit);
            // The last frames of the stack's previous owner were left, not returned from.
            __asan_unpoison_memory_region(stack.0, stack.1);
            (*base).notes.stacks[0] = stack;
        }
        #[cfg(feature = "tsan")]
        {
            let fiber = __tsan_create_fiber(0);
            (*base).notes.fibers = [fiber, fiber, 0];
        }
        #[cfg(feature = "valgrind")]
        {
            (*base).notes.number = client_request(0x1501, (*base).limit, (*base).top - 1);
        }
    }
}

/// Notes that the frames on the stack of a running coroutine were left, not returned from.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn emptied(base: *mut Base) {
    // SAFETY: the caller promises a live Base; the runtime only records what it is given.
    #[cfg(feature = "asan")]
    unsafe {
        __asan_unpoison_memory_region((*base).limit, (*base).top - (*base).limit);
    }
}

/// Returns the lowest address of the stack on which the resumer of a running coroutine stands still.
///
/// # Safety
///
/// As [`made`].
#[cfg(feature = "asan")]
pub unsafe fn resumers_limit(base: *mut Base) -> usize {
    // SAFETY: the notes were filled in on the way in.
    unsafe { (*base).notes.stacks[1].0 }
}

/// Notes that the coroutine is gone and that nothing runs on its stack any more.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn gone(base: *mut Base) {
    // SAFETY: as in `made`, which filled the notes.
    #[cfg(any(feature = "tsan", feature = "valgrind"))]
    unsafe {
        #[cfg(feature = "tsan")]
        __tsan_destroy_fiber((*base).notes.fibers[0]);
        #[cfg(feature = "valgrind")]
        client_request(0x1502, (*base).notes.number, 0);
    }
}

/// Notes that the resumer is about to switch in.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn before_resume(base: *mut Base) -> Departed {
    // SAFETY: the notes say where the coroutine stands still.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    unsafe {
        #[cfg(feature = "tsan")]
        {
            (*base).notes.fibers[2] = __tsan_get_current_fiber();
            __tsan_switch_to_fiber((*base).notes.fibers[1], 0);
        }
        #[cfg(feature = "asan")]
        {
            let (bottom, size) = (*base).notes.stacks[0];
            let mut fake = 0;
            __sanitizer_start_switch_fiber(&mut fake, bottom, size);
            return Departed { fake };
        }
    }
    #[cfg(not(feature = "asan"))]
    Departed {}
}

/// Notes that the resumer runs again.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn after_resume(base: *mut Base, departed: Departed) {
    // SAFETY: `fake` is what start_switch_fiber gave this stack; the runtime writes the bounds of the
    // stack just left to the notes.
    #[cfg(feature = "asan")]
    unsafe {
        let (bottom, size) = &mut (*base).notes.stacks[0];
        __sanitizer_finish_switch_fiber(departed.fake, bottom, size);
    }
}

/// Notes that the coroutine runs, for the first time (`None`) or again.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn arrived(base: *mut Base, departed: Option<Departed>) {
    // SAFETY: as in `after_resume`.
    #[cfg(feature = "asan")]
    unsafe {
        let (bottom, size) = &mut (*base).notes.stacks[1];
        __sanitizer_finish_switch_fiber(departed.map_or(0, |d| d.fake), bottom, size);
    }
}

/// Notes that the coroutine is about to switch back, for good if `last`.
///
/// # Safety
///
/// As [`made`].
#[inline(always)]
pub unsafe fn before_suspend(base: *mut Base, last: bool) -> Departed {
    // SAFETY: what the notes say of the resumer was filled in on the way in.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    unsafe {
        #[cfg(feature = "tsan")]
        {
            (*base).notes.fibers[1] = __tsan_get_current_fiber();
            __tsan_switch_to_fiber((*base).notes.fibers[2], 0);
        }
        #[cfg(feature = "asan")]
        {
            let (bottom, size) = (*base).notes.stacks[1];
            let mut fake = 0;
            let keep = if last {
                core::ptr::null_mut()
            } else {
                &raw mut fake
            };
            __sanitizer_start_switch_fiber(keep, bottom, size);
            return Departed { fake };
        }
    }
    #[cfg(not(feature = "asan"))]
    Departed {}
}
