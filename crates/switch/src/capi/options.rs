//! Structs and codes of `lancet_switch.h`, and the pools and reports of the C interface.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::boxed::Box;

use super::fiber::{FreeStack, RUNNING};
use crate::error::Error;
use crate::pool::{Config, Guard, Pool, Reuse};
use crate::report;

/// Error codes of the C interface, `LANCET_E…` in `lancet_switch.h`: all are negative.
pub mod code {
    use super::{Error, RUNNING, c_int};

    /// `LANCET_EINVALID`: an argument is invalid.
    pub const INVALID: c_int = -1;
    /// `LANCET_ERUNNING`: the fiber is running.
    pub const RUNNING_NOW: c_int = -9;
    /// `LANCET_EDONE`: the fiber has ended.
    pub const DONE: c_int = -10;
    /// `LANCET_ESTILL`: the fiber caught its cancellation and is suspended again.
    pub const STILL_SUSPENDED: c_int = -11;
    /// `LANCET_ESYSTEM`: a system call failed; errno says why.
    pub const SYSTEM: c_int = -12;

    /// Returns the code of an error.
    pub fn of(error: Error) -> c_int {
        match error {
            Error::TooSmall { .. } => -2,
            Error::TooLarge { .. } => -3,
            Error::OutOfMemory { .. } => -4,
            Error::OutOfMappings => -5,
            Error::GuardRefused { .. } => -6,
            Error::PoolFull { .. } => -7,
            Error::ShadowStack => -8,
        }
    }

    /// Returns the code that says why a fiber in this state cannot be resumed.
    pub fn of_state(state: u32) -> c_int {
        if state == RUNNING { RUNNING_NOW } else { DONE }
    }
}

/// `struct lancet_options`. The first field is the size the caller's header gave it, so that
/// later versions can add fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    size: usize,
    /// Usable bytes of the stack; 0 for the pool's size.
    pub stack_size: usize,
    /// Null, or a name.
    pub name: *const c_char,
    /// The pool that the stack is taken from; null for the pool of the process.
    pub pool: *const Pool,
    /// Null, or memory of the caller's for the stack.
    pub stack: *mut c_void,
    /// Null, or a function that is called when `stack` is free.
    pub stack_free: Option<FreeStack>,
    /// The argument for `stack_free`.
    pub stack_user: *mut c_void,
    /// Flags, a sum of bits: [`Options::KEEP_FP`].
    pub flags: c_uint,
}

impl Options {
    /// `LANCET_KEEP_FP` in `flags`: the control words are saved and restored at each switch.
    pub const KEEP_FP: c_uint = 1;

    /// Copies as many bytes as the caller's version has; the rest is zero.
    ///
    /// # Safety
    ///
    /// `from` must be null or point to an `Options` of `from.size` bytes.
    pub unsafe fn read(from: *const Options) -> Options {
        let mut options = Options {
            size: size_of::<Options>(),
            stack_size: 0,
            name: core::ptr::null(),
            pool: core::ptr::null(),
            stack: core::ptr::null_mut(),
            stack_free: None,
            stack_user: core::ptr::null_mut(),
            flags: 0,
        };
        if !from.is_null() {
            // SAFETY: the caller promises `size` readable bytes; every prefix of an Options in C is
            // a prefix of one here, and every field is valid as zeros.
            unsafe {
                let len = (*from).size.min(size_of::<Options>());
                (&raw mut options)
                    .cast::<u8>()
                    .copy_from_nonoverlapping(from.cast::<u8>(), len);
            }
        }
        options
    }
}

/// `struct lancet_pool_config`; 0 in a field is the default.
#[repr(C)]
pub struct PoolConfig {
    stack_size: usize,
    guard_size: usize,
    max_stacks: usize,
    reuse: c_uint,
    flags: c_uint,
}

/// `LANCET_NO_GUARD` in [`PoolConfig::flags`]: stacks get no guard.
const NO_GUARD: c_uint = 1;
/// `LANCET_GUARD_MPROTECT` in [`PoolConfig::flags`]: guards are made by mprotect alone.
const GUARD_MPROTECT: c_uint = 2;

/// `struct lancet_pool_statistics`: the counts of [`Pool::stats`].
#[repr(C)]
pub struct PoolStats {
    slabs: usize,
    mapped: usize,
    live: usize,
    peak: usize,
    free: usize,
    given: u64,
    reused: u64,
    light_guards: usize,
    mprotect_guards: usize,
}

/// Makes a pool. Zero in a field of `config`, or no `config`, means the default.
///
/// # Safety
///
/// `out` must be writable and `config` null or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_pool_new(out: *mut *mut Pool, config: *const PoolConfig) -> c_int {
    let mut settings = Config::from_env();
    // SAFETY: the caller promises both pointers.
    unsafe {
        if let Some(config) = config.as_ref() {
            if config.stack_size != 0 {
                settings.stack_size = config.stack_size;
            }
            if config.guard_size != 0 {
                settings.guard_size = config.guard_size;
            }
            if config.flags & NO_GUARD != 0 {
                settings.guard_size = 0;
            }
            if config.flags & GUARD_MPROTECT != 0 {
                settings.guard = Guard::Mprotect;
            }
            settings.max_stacks = (config.max_stacks != 0).then_some(config.max_stacks);
            settings.reuse = match config.reuse {
                0 => settings.reuse,
                1 => Reuse::Keep,
                2 => Reuse::Free,
                3 => Reuse::DontNeed,
                4 => Reuse::Warm,
                _ => return code::INVALID,
            };
        }
        if out.is_null() {
            return code::INVALID;
        }
        match Pool::new(settings) {
            Ok(pool) => {
                out.write(Box::into_raw(Box::new(pool)));
                0
            }
            Err(error) => code::of(error),
        }
    }
}

/// Frees the handle; the stacks of the pool live on until their fibers are freed.
///
/// # Safety
///
/// `pool` must be null or come from [`lancet_pool_new`] and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_pool_free(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY: the caller promises a handle of ours.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// Gives the memory of free stacks back to the kernel.
///
/// # Safety
///
/// `pool` must be null (the pool of the process) or come from [`lancet_pool_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_pool_trim(pool: *const Pool) {
    // SAFETY: the caller promises a handle of ours or null.
    unsafe { pool.as_ref() }
        .unwrap_or_else(|| Pool::global())
        .trim();
}

/// Counts of a pool.
///
/// # Safety
///
/// As [`lancet_pool_trim`]; `out` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lancet_pool_stats(pool: *const Pool, out: *mut PoolStats) {
    // SAFETY: the caller promises a handle of ours or null, and a place to write to.
    unsafe {
        let stats = pool.as_ref().unwrap_or_else(|| Pool::global()).stats();
        out.write(PoolStats {
            slabs: stats.slabs,
            mapped: stats.mapped,
            live: stats.live,
            peak: stats.peak,
            free: stats.free,
            given: stats.given,
            reused: stats.reused,
            light_guards: stats.light_guards,
            mprotect_guards: stats.mprotect_guards,
        });
    }
}

/// Installs the overflow report; covers the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn lancet_report_install() -> c_int {
    report::install().map_or(code::SYSTEM, |()| 0)
}

/// Covers the calling thread until it ends.
#[unsafe(no_mangle)]
pub extern "C" fn lancet_report_cover_thread() -> c_int {
    report::cover_thread().map_or(code::SYSTEM, |()| 0)
}

/// Returns the text of an error code.
#[unsafe(no_mangle)]
pub extern "C" fn lancet_strerror(code: c_int) -> *const c_char {
    let text: &CStr = match code {
        0 => c"no error",
        -1 => c"an argument is invalid",
        -2 => c"the stack asked for is too small",
        -3 => c"the stack asked for does not fit an address space",
        -4 => c"there is no memory for stacks",
        -5 => c"no mapping left for a guard: raise vm.max_map_count, or use Linux 6.13 or later",
        -6 => c"the kernel refused to make a guard",
        -7 => c"all stacks of the pool are in use",
        -8 => c"this thread runs with a shadow stack, which is not supported",
        -9 => c"the fiber is running",
        -10 => c"the fiber has ended",
        -11 => c"the fiber caught its cancellation and is suspended again",
        -12 => c"a system call failed; see errno",
        _ => c"no such code",
    };
    text.as_ptr()
}
