//! The functions that the assembly of [`super::switch`] calls around a switch when a sanitizer is built in.
//!
//! Only with the features `asan` and `tsan`: the fast path has no call in it otherwise. Plain symbols,
//! because assembly that is left out cannot name a Rust function.

use super::fiber::block;
use crate::annotate;
use crate::arch::Base;

/// Called on the resumer's stack, about to switch in.
#[unsafe(no_mangle)]
unsafe extern "C" fn lancet_hook_before_resume(fiber: *mut Base) {
    // SAFETY: for all hooks: the assembly passes the live fiber that it switches.
    unsafe { (*block(fiber)).resumer = Some(annotate::before_resume(fiber)) }
}

/// Called on the resumer's stack, when it runs again.
#[unsafe(no_mangle)]
unsafe extern "C" fn lancet_hook_in_resumer(fiber: *mut Base) {
    // SAFETY: see above.
    unsafe {
        if let Some(departed) = (*block(fiber)).resumer.take() {
            annotate::after_resume(fiber, departed);
        }
    }
}

/// Called on the fiber's stack, when it runs for the first time or again.
#[unsafe(no_mangle)]
unsafe extern "C" fn lancet_hook_in_fiber(fiber: *mut Base) {
    // SAFETY: see above.
    unsafe { annotate::arrived(fiber, (*block(fiber)).suspended.take()) }
}

/// Called on the fiber's stack, about to switch back.
#[unsafe(no_mangle)]
unsafe extern "C" fn lancet_hook_before_suspend(fiber: *mut Base) {
    // SAFETY: see above.
    unsafe { (*block(fiber)).suspended = Some(annotate::before_suspend(fiber, false)) }
}

/// Called on the fiber's stack, about to leave it for good.
#[unsafe(no_mangle)]
unsafe extern "C" fn lancet_hook_before_end(fiber: *mut Base) {
    // SAFETY: see above.
    unsafe { annotate::before_suspend(fiber, true) };
}

/// Does what the two hooks around a last switch do.
pub unsafe fn passed(fiber: *mut Base) {
    // SAFETY: see above.
    unsafe {
        lancet_hook_before_end(fiber);
        lancet_hook_in_resumer(fiber);
    }
}
