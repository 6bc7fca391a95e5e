//! What a fiber of the C interface is: the block beside its stack, its states, and who owns its memory.

use core::ffi::{c_int, c_void};

#[cfg(any(feature = "asan", feature = "tsan"))]
use crate::annotate;
use crate::arch::Base;
use crate::fp::ControlWords;
use crate::pool::PoolStack;

/// A state in [`Base::state`]: the fiber was made, or suspended itself.
pub const SUSPENDED: u32 = 1;
/// The fiber runs, or waits for one that it resumed.
pub const RUNNING: u32 = 2;
/// Its function has returned, thrown or been unwound.
pub const DONE: u32 = 3;
/// Added to the first two: its control words travel.
pub const KEEPS_FP: u32 = 4;

/// The state of a fiber, without [`KEEPS_FP`].
///
/// # Safety
///
/// `fiber` must be one that was not freed.
pub unsafe fn state(fiber: *const Base) -> u32 {
    // SAFETY: the caller promises a live fiber.
    unsafe { (*fiber).state & !KEEPS_FP }
}

/// `lancet_entry`.
pub type UserEntry =
    extern "C-unwind" fn(fiber: *mut Base, first: *mut u8, argument: *mut c_void) -> *mut u8;

/// `lancet_stack_free`.
pub type FreeStack = extern "C" fn(stack: *mut c_void, len: usize, user: *mut c_void);

/// Who owns the memory of a fiber.
pub enum Owner {
    /// The pool it came from, and goes back to when this is dropped.
    Pool {
        /// The stack.
        _stack: PoolStack,
    },
    /// The caller, who may want to hear when it is free.
    Caller {
        /// What to call then.
        free: Option<FreeStack>,
        /// Lowest address.
        stack: *mut c_void,
        /// Bytes.
        len: usize,
        /// For the callback.
        user: *mut c_void,
    },
}

/// What is kept of a fiber beside its frames.
#[repr(C, align(16))]
pub struct Fiber {
    /// The exception that cancels it.
    pub exception: Exception,
    /// Whether that is on its way: it cannot be raised a second time.
    pub unwinding: bool,
    /// The function and its argument.
    pub entry: UserEntry,
    /// See `entry`.
    pub argument: *mut c_void,
    /// Taken when the fiber is freed.
    pub owner: Owner,
    /// For [`super::hooks`]: what the side that stands still must be given back.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    pub resumer: Option<annotate::Departed>,
    /// See `resumer`.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    pub suspended: Option<annotate::Departed>,
    /// Control words the resumer left behind, if they travel.
    pub resumers_words: ControlWords,
    /// And the fiber.
    pub fibers_words: ControlWords,
    /// What C has a pointer to.
    pub base: Base,
}

/// `struct _Unwind_Exception`: what unwinders of every language pass around.
#[repr(C, align(16))]
pub struct Exception {
    class: u64,
    cleanup: extern "C" fn(c_int, *mut Exception),
    private: [usize; 2],
}

impl Exception {
    /// The one that cancels a fiber; it lives in the fiber's block.
    pub const fn new() -> Self {
        Exception {
            class: u64::from_be_bytes(*b"LNCTSWCH"),
            cleanup: swallowed,
            private: [0; 2],
        }
    }
}

/// Somebody caught the cancellation and did not rethrow it: the fiber goes on.
extern "C" fn swallowed(_reason: c_int, exception: *mut Exception) {
    // SAFETY: the exception is the first field of a live fiber.
    unsafe { (*exception.cast::<Fiber>()).unwinding = false };
}

/// [`swallowed`] finds the fiber; and unwinders want 16 bytes of alignment.
const _: () = assert!(core::mem::offset_of!(Fiber, exception) == 0 && align_of::<Fiber>() >= 16);

/// The block around a pointer of C's.
pub fn block(fiber: *mut Base) -> *mut Fiber {
    fiber
        .wrapping_byte_sub(core::mem::offset_of!(Fiber, base))
        .cast()
}

/// The end, with a reason.
#[cold]
pub fn misuse(reason: &str) -> ! {
    std::eprintln!("lancet-switch: {reason}");
    std::process::abort();
}
