//! Exceptions and cancellation on a fiber of the C interface.
//!
//! The library may be built with `panic = "abort"`, and its callers throw exceptions of their own
//! language: so nothing here uses Rust's unwinding. libgcc's `_Unwind_*` (Itanium C++ ABI, level I)
//! does the work, and no Rust frame is ever in its way.
//!
//! - An exception that reaches `start` finds a handler there, whatever its language. It leaves the
//!   fiber, which is done, and is raised again in the resumer.
//! - A cancellation is a forced unwinding, as of `pthread_cancel`: destructors run, `catch (...)`
//!   is entered, and at `start` the fiber switches away for good. If the fiber was suspended from one that it
//!   had resumed, the unwinding comes through the `start` of that one first, which is done then.

use core::ffi::{c_int, c_void};

use super::fiber::{DONE, Exception, KEEPS_FP, block, misuse};
use super::switch::{landing, leave, start, status};
use crate::arch::Base;

const CLEANUP_SEARCH: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCE_UNWIND: c_int = 8;
const END_OF_STACK: c_int = 16;

const NO_REASON: c_int = 0;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE_UNWIND: c_int = 8;

#[repr(C)]
pub struct Context {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn _Unwind_GetGR(context: *mut Context, register: c_int) -> usize;
    fn _Unwind_SetGR(context: *mut Context, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut Context, ip: usize);
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

/// Personality of `start`: catches everything but a forced unwinding (`pthread_exit` in a fiber
/// unwinds the resumer too).
pub unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut Exception,
    context: *mut Context,
) -> c_int {
    if actions & FORCE_UNWIND != 0 {
        return CONTINUE_UNWIND;
    }
    if actions & CLEANUP_SEARCH != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the unwinder's context is ours to set up in this phase. 0 is rax in DWARF; `landing`
    // takes the exception there and its own frame from rbp, which the unwinder restores.
    unsafe {
        _Unwind_SetGR(context, 0, exception.expose_provenance());
        _Unwind_SetIP(context, landing as *const () as usize);
    }
    INSTALL_CONTEXT
}

/// Called by a forced unwinding at each frame; ends it at the `start` of the fiber that is cancelled.
pub unsafe extern "C" fn stop(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut Exception,
    context: *mut Context,
    fiber: *mut c_void,
) -> c_int {
    let fiber = fiber.cast::<Base>();
    // SAFETY: the unwinder's context is valid in this call.
    let region = unsafe { _Unwind_GetRegionStart(context) };
    let at_start = region == start as *const () as usize;
    if at_start {
        // SAFETY: as above; in the frame of `start` rbp (6 in DWARF) is the address of its fiber.
        let here = unsafe { _Unwind_GetGR(context, 6) };
        if here != fiber.expose_provenance() {
            // SAFETY: `start` runs on that fiber's stack, so it is alive; its frames are unwound.
            unsafe { passed(core::ptr::with_exposed_provenance_mut(here)) };
            return NO_REASON;
        }
    }
    if at_start || actions & END_OF_STACK != 0 {
        // SAFETY: every frame between here and `start` has been unwound; the link holds the image
        // of whoever cancels.
        unsafe { leave(fiber, core::ptr::null_mut(), status::CANCELLED) }
    }
    NO_REASON
}

/// Ends the process, as for an exception that leaves `main`: no handler catches an exception that came out of a fiber,
/// or a stack cannot be walked.
pub unsafe extern "C" fn unhandled(exception: *const Exception) -> ! {
    misuse(if exception.is_null() {
        "a fiber's stack could not be unwound"
    } else {
        "nobody catches the exception that came out of a fiber"
    })
}

/// Ends a fiber that was unwound by the cancellation of a fiber that it was resumed in. It does what its last switch
/// would have done, but for the exchange of stacks, which the unwinder does.
///
/// # Safety
///
/// It must be running, and no frame of it needed any more.
unsafe fn passed(fiber: *mut Base) {
    // SAFETY: the caller promises a live fiber, whose resumer left its control words on the way in.
    unsafe {
        if (*fiber).state & KEEPS_FP != 0 {
            (*block(fiber)).resumers_words.restore();
        }
        (*fiber).state = DONE;
        #[cfg(any(feature = "asan", feature = "tsan"))]
        super::hooks::passed(fiber);
    }
}
