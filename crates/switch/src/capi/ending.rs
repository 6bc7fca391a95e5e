//! Cancelling, freeing and asking a fiber of the C interface.

use core::ffi::c_int;
use std::boxed::Box;

use super::fiber::{DONE, Owner, RUNNING, SUSPENDED, block, state};
use super::options::code;
use super::switch::{resume_to_unwind, status};
use crate::annotate;
use crate::arch::{Base, Mark};
use crate::pool::high_water_mark;

/// Ends a suspended fiber by unwinding its stack; 0 when it has ended.
///
/// # Safety
///
/// For all functions here: `fiber` is one that was not freed and that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lancet_cancel(fiber: *mut Base) -> c_int {
    // SAFETY: the caller promises a live fiber; only a suspended one is switched to.
    unsafe {
        match state(fiber) {
            SUSPENDED if (*fiber).data.is_null() => {
                // Never resumed: there is nothing to unwind.
                (*fiber).state = DONE;
                0
            }
            // In a destructor of a first cancellation.
            SUSPENDED if (*block(fiber)).unwinding => code::STILL_SUSPENDED,
            SUSPENDED => {
                (*block(fiber)).unwinding = true;
                match resume_to_unwind(fiber).status {
                    status::SUSPENDED => code::STILL_SUSPENDED,
                    _ => 0,
                }
            }
            DONE => 0,
            running => code::of_state(running),
        }
    }
}

/// Frees a fiber, after cancelling it if it is suspended.
///
/// # Safety
///
/// As [`lancet_cancel`]; unless an error is returned, `fiber` is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lancet_fiber_free(fiber: *mut Base) -> c_int {
    if fiber.is_null() {
        return 0;
    }
    // SAFETY: the caller promises a live fiber.
    unsafe {
        match lancet_cancel(fiber) {
            0 => {
                release(fiber);
                0
            }
            error => error,
        }
    }
}

/// Frees a fiber that is not running without unwinding it.
///
/// # Safety
///
/// As [`lancet_fiber_free`]; and nobody needs anything on its stack any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_fiber_discard(fiber: *mut Base) -> c_int {
    if fiber.is_null() {
        return 0;
    }
    // SAFETY: the caller promises a live fiber.
    unsafe {
        if state(fiber) == RUNNING {
            return code::of_state(RUNNING);
        }
        release(fiber);
    }
    0
}

/// Gives the memory of a fiber back.
///
/// # Safety
///
/// Nothing runs on it or looks at it any more.
unsafe fn release(fiber: *mut Base) {
    // SAFETY: the block was made as a Box, and the caller promises that this is its end; the mark
    // is on a stack that is still the fiber's.
    unsafe {
        annotate::gone(fiber);
        (*Mark::at((*fiber).top)).magic = 0;
        let block = Box::from_raw(block(fiber));
        if let Owner::Caller {
            free: Some(free),
            stack,
            len,
            user,
        } = block.owner
        {
            free(stack, len, user);
        }
    }
}

/// `LANCET_STATE_SUSPENDED`, `_RUNNING` or `_DONE`.
///
/// # Safety
///
/// As [`lancet_cancel`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_fiber_state(fiber: *const Base) -> c_int {
    // SAFETY: the caller promises a live fiber.
    unsafe { state(fiber) as c_int }
}

/// The number of a fiber, as in an overflow report.
///
/// # Safety
///
/// As [`lancet_cancel`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_fiber_id(fiber: *const Base) -> u64 {
    // SAFETY: the caller promises a live fiber.
    unsafe { (*fiber).id }
}

/// The most bytes of its stack that were ever in use; `size`, if not null, gets how many there are.
///
/// # Safety
///
/// As [`lancet_cancel`]; it may be running, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_fiber_high_water(fiber: *const Base, size: *mut usize) -> usize {
    // SAFETY: the caller promises a live fiber, and that `size` is null or writable.
    unsafe {
        let range = (*fiber).limit..(*fiber).top;
        if !size.is_null() {
            size.write(range.len());
        }
        high_water_mark(range)
    }
}
