//! Making a fiber of the C interface: its block, its stack, and the first image that a switch into it takes.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use super::fiber::{Exception, Fiber, KEEPS_FP, Owner, SUSPENDED, UserEntry};
use super::options::{Options, code};
use super::switch::{IMAGE, first_address, start};
use crate::arch::{self, ALIGN, Base, Mark};
use crate::error::Error;
use crate::pool::Pool;
use crate::stack::Stack;
use crate::value::Word;
use crate::{annotate, blocks, builder};

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
    let fiber = blocks::allocate::<Fiber>()?;
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
        builder::init(base, range, blocks::number(), name, keep_fp);
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
