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
/// Added to the first two: the control words are exchanged at every switch.
pub const KEEPS_FP: u32 = 4;

/// Returns the state of a fiber, without [`KEEPS_FP`].
///
/// # Safety
///
/// `fiber` must be one that was not freed.
pub unsafe fn state(fiber: *const Base) -> u32 {
    // SAFETY: the caller promises a live fiber.
    unsafe { (*fiber).state & !KEEPS_FP }
}

/// The function of a fiber: `lancet_entry`.
pub type UserEntry =
    extern "C-unwind" fn(fiber: *mut Base, first: *mut u8, argument: *mut c_void) -> *mut u8;

/// The callback that frees a stack: `stack_free` of `struct lancet_options`.
pub type FreeStack = extern "C" fn(stack: *mut c_void, len: usize, user: *mut c_void);

/// The owner of the memory of a fiber.
pub enum Owner {
    /// The pool it came from, and goes back to when this is dropped.
    Pool {
        /// The stack, which goes back when it is dropped.
        _stack: PoolStack,
    },
    /// The caller, who may want to be notified when it is free.
    Caller {
        /// The function that is called then.
        free: Option<FreeStack>,
        /// Lowest address of the stack.
        stack: *mut c_void,
        /// Bytes of the stack.
        len: usize,
        /// The argument for the callback.
        user: *mut c_void,
    },
}

/// The block of a fiber, which is kept beside its frames.
#[repr(C, align(16))]
pub struct Fiber {
    /// The exception by which it is cancelled.
    pub exception: Exception,
    /// Whether that exception was raised: it cannot be raised a second time.
    pub unwinding: bool,
    /// The function of the fiber.
    pub entry: UserEntry,
    /// The last argument of `entry`.
    pub argument: *mut c_void,
    /// The owner of its memory; taken when the fiber is freed.
    pub owner: Owner,
    /// For [`super::hooks`]: what the resumer must be given back.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    pub resumer: Option<annotate::Departed>,
    /// For [`super::hooks`]: what the fiber must be given back.
    #[cfg(any(feature = "asan", feature = "tsan"))]
    pub suspended: Option<annotate::Departed>,
    /// The resumer's control words while the fiber runs, if they are exchanged.
    pub resumers_words: ControlWords,
    /// The fiber's control words while it does not run.
    pub fibers_words: ControlWords,
    /// The part to which C has a pointer.
    pub base: Base,
}

/// `struct _Unwind_Exception` (Itanium C++ ABI, 1.2.1), which the unwinders of all languages pass on.
#[repr(C, align(16))]
pub struct Exception {
    class: u64,
    cleanup: extern "C" fn(c_int, *mut Exception),
    private: [usize; 2],
}

impl Exception {
    /// The exception that cancels a fiber; it is in the fiber's block.
    pub const fn new() -> Self {
        Exception {
            class: u64::from_be_bytes(*b"LNCTSWCH"),
            cleanup: swallowed,
            private: [0; 2],
        }
    }
}

/// Called by the unwinder when a handler caught the cancellation and did not rethrow it: the fiber goes on.
extern "C" fn swallowed(_reason: c_int, exception: *mut Exception) {
    // SAFETY: the exception is the first field of a live fiber.
    unsafe { (*exception.cast::<Fiber>()).unwinding = false };
}

/// [`swallowed`] finds the fiber by it; and unwinders require 16 bytes of alignment.
const _: () = assert!(core::mem::offset_of!(Fiber, exception) == 0 && align_of::<Fiber>() >= 16);

/// Returns the block around a pointer that C has.
pub fn block(fiber: *mut Base) -> *mut Fiber {
    fiber
        .wrapping_byte_sub(core::mem::offset_of!(Fiber, base))
        .cast()
}

/// Ends the process with a message, because the caller broke a rule of the interface.
#[cold]
pub fn misuse(reason: &str) -> ! {
    std::eprintln!("lancet-switch: {reason}");
    std::process::abort();
}
