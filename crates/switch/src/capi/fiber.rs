//! What a fiber of the C interface is, and its making.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use super::options::{Options, code};
use super::switch::{IMAGE, Switched, first_address, start};
use super::unwind::Exception;
use crate::arch::{self, ALIGN, Base, Mark};
use crate::error::Error;
use crate::fp::ControlWords;
use crate::pool::{Pool, PoolStack};
use crate::stack::Stack;
use crate::value::Word;
use crate::{annotate, builder};

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

/// The block around a pointer of C's.
pub fn block(fiber: *mut Base) -> *mut Fiber {
    fiber
        .wrapping_byte_sub(core::mem::offset_of!(Fiber, base))
        .cast()
}

/// Makes a fiber that will run `entry(fiber, first value, argument)`.
///
/// # Safety
///
/// `out` must be writable, `options` null or as `lancet_switch.h` says, and `entry` a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_fiber_new(
    out: *mut *mut Base,
    entry: Option<UserEntry>,
    argument: *mut c_void,
    options: *const Options,
) -> c_int {
    // SAFETY: the caller promises both pointers.
    unsafe {
        let Some(entry) = entry.filter(|_| !out.is_null()) else {
            return code::INVALID;
        };
        let options = Options::read(options);
        match make(entry, argument, &options) {
            Ok(fiber) => {
                out.write(fiber);
                0
            }
            Err(error) => code::of(error),
        }
    }
}

/// # Safety
///
/// As [`lancet_fiber_new`].
unsafe fn make(
    entry: UserEntry,
    argument: *mut c_void,
    options: &Options,
) -> Result<*mut Base, Error> {
    if arch::shadow_stack() {
        return Err(Error::ShadowStack);
    }
    // SAFETY: the caller promises that `options.pool` is null or a pool that was not freed.
    let pool = unsafe { options.pool.as_ref() }.unwrap_or_else(|| Pool::global());
    let (owner, range) = if !options.stack.is_null() {
        let start = options.stack.expose_provenance();
        let end = start
            .checked_add(options.stack_size)
            .ok_or(Error::TooLarge {
                asked: options.stack_size,
            })?;
        let owner = Owner::Caller {
            free: options.stack_free,
            stack: options.stack,
            len: options.stack_size,
            user: options.stack_user,
        };
        (owner, start..end)
    } else {
        let stack = match options.stack_size {
            0 => pool.stack()?,
            bytes => pool.stack_of(bytes)?,
        };
        let range = stack.range();
        (Owner::Pool { _stack: stack }, range)
    };
    let top = (range.end & !(ALIGN - 1)).saturating_sub(size_of::<Mark>());
    let least = size_of::<Mark>() + IMAGE + builder::LEAST_FREE;
    if top.saturating_sub(range.start) < least {
        return Err(Error::TooSmall {
            asked: range.len(),
            least,
        });
    }
    let name = (!options.name.is_null()).then(|| {
        // SAFETY: the caller promises a C string.
        unsafe { CStr::from_ptr(options.name) }
    });
    let name = name.and_then(|name| name.to_str().ok());
    let fiber = builder::allocate::<Fiber>()?;
    // SAFETY: the block is new, and the image lies within the stack (checked above), which is ours
    // by the contract of the pool or the promise of the caller; both are written in full before the
    // first switch reads them.
    unsafe {
        let base = &raw mut (*fiber).base;
        (&raw mut (*fiber).exception).write(Exception::new());
        (&raw mut (*fiber).unwinding).write(false);
        (&raw mut (*fiber).entry).write(entry);
        (&raw mut (*fiber).argument).write(argument);
        (&raw mut (*fiber).owner).write(owner);
        #[cfg(any(feature = "asan", feature = "tsan"))]
        {
            (&raw mut (*fiber).resumer).write(None);
            (&raw mut (*fiber).suspended).write(None);
        }
        (*fiber).fibers_words.save();
        let keep_fp = options.flags & Options::KEEP_FP != 0;
        builder::init(base, range, name, keep_fp);
        // `start` makes it another value: the fiber has started.
        (&raw mut (*base).data).write(ptr::null_mut());
        (&raw mut (*base).record).write(start as *const () as usize);
        (&raw mut (*base).entry).write(no_entry);
        (&raw mut (*base).state).write(SUSPENDED | if keep_fp { KEEPS_FP } else { 0 });

        // 16 bytes aligned when `start` runs, with the return address popped.
        let image = ptr::with_exposed_provenance_mut::<usize>(top - IMAGE);
        for register in 0..5 {
            image.add(register).write(0);
        }
        image.add(5).write(base.expose_provenance());
        image.add(6).write(first_address());
        (&raw mut (*base).link).write(image.add(5).addr());
        annotate::made(base);
        Ok(base)
    }
}

/// For [`Base::entry`]: fibers of the C interface enter by their image.
unsafe extern "C" fn no_entry(_value: Word, _tag: usize, _base: *mut Base) -> ! {
    unreachable!("a fiber of the C interface was entered as a coroutine")
}

/// What the assembly of [`super::switch`] knows: `rbp` = `&Base.link` is the fiber, and 4 bytes after
/// mxcsr there is the x87 word.
const _: () = assert!(
    core::mem::offset_of!(Base, link) == 0
        && core::mem::offset_of!(ControlWords, mxcsr) == 0
        && core::mem::offset_of!(ControlWords, x87) == 4
);

/// Resumed while running, or after its end.
pub extern "C" fn entered_wrongly(fiber: *mut Base, _value: *mut u8) -> Switched {
    // SAFETY: C passed a fiber that was not freed.
    let state = unsafe { state(fiber) };
    Switched {
        value: ptr::null_mut(),
        status: code::of_state(state) as isize,
    }
}

/// Suspended a fiber that is not running: there is nobody to go back to.
pub extern "C" fn suspended_wrongly(_fiber: *mut Base, _value: *mut u8) -> *mut u8 {
    misuse("lancet_suspend was called for a fiber that is not running")
}

/// The cancellation of a fiber that this one was resumed in has unwound this one. What its last switch
/// would have done but for the exchange of stacks, which the unwinder does.
///
/// # Safety
///
/// It must be running, and no frame of it needed any more.
pub unsafe fn passed(fiber: *mut Base) {
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

/// The end, with a reason.
#[cold]
pub fn misuse(reason: &str) -> ! {
    std::eprintln!("lancet-switch: {reason}");
    std::process::abort();
}
