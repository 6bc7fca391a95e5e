//! The overflow report: which coroutine ran out of stack, in which function, and what to do.
//!
//! ```text
//! lancet-switch: stack overflow in fiber 17 "parser", thread 4242
//!   stack     262,144 bytes at 0x7f…-0x7f…, guard 131,072 bytes; the fault is 8 bytes below the stack
//!   used      262,144 bytes at most (high-water mark)
//!   at fault  parse_value+0x1b in libjson.so: frame of 96 bytes
//!   largest   read_block+0x40 in libjson.so: frame of 40,976 bytes, 3 frames up of 2,301
//!   lever     a larger stack: Builder::stack_size, stack_size of lancet_options, or LANCET_STACK_SIZE=512k (now 256k)
//! ```
//!
//! Nothing is installed until [`install`] is called. The handler runs on an alternate signal stack,
//! one per thread: [`install`] gives the calling thread one, [`cover_thread`] any other. A thread
//! without one dies of an overflow as it would without us, and so does one that blocks `SIGSEGV`: for a
//! fault the kernel then calls no handler.
//!
//! Whether a fault is ours is decided without a lock, from a table of slabs, the address and
//! `rsp`. Only then is the stack walked, with the unwinder of libgcc: it takes no lock where it finds
//! unwind tables through `_dl_find_object` (gcc 12 with glibc 2.35), and the loader's lock before
//! that. After the report, and for every fault that is not ours, the handler that was there before
//! is called with what the kernel passed us, or the default is put back and the fault happens
//! again.
//!
//! What is walked is frames with unwind tables: code without them ends the walk, and the report
//! then counts fewer frames.

mod frames;
mod handler;
mod symbols;
mod text;

use core::cell::RefCell;
use core::mem::MaybeUninit;
use core::ptr;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::pool::{Config, Once, Pool, PoolStack};
use crate::stack::Stack;

/// Bytes of an alternate stack: the handler, the unwinder and this crate's buffers take under
/// 16 KiB; handlers called after ours may want some too.
const ALTERNATE: usize = 64 << 10;

/// Whether our handler is in force.
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Installs the handler, unless it is in force, and covers the calling thread until it ends.
///
/// A handler that another library installs later is called instead of ours; whether it calls us is
/// its business. Ours keeps the signal mask of the one it replaced.
pub fn install() -> io::Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*installed {
        // SAFETY: the lock keeps other installers out, and no handler of ours is in force that
        // could read PREVIOUS while it is written. sigaction fills the struct it is given.
        unsafe {
            let mut previous = MaybeUninit::<libc::sigaction>::uninit();
            if libc::sigaction(libc::SIGSEGV, ptr::null(), previous.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let previous = previous.assume_init();
            (*handler::PREVIOUS.0.get()).write(previous);
            let mut ours: libc::sigaction = core::mem::zeroed();
            ours.sa_sigaction = handler::on_fault as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            ours.sa_mask = previous.sa_mask;
            if libc::sigaction(libc::SIGSEGV, &ours, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        *installed = true;
    }
    drop(installed);
    cover_thread()
}

/// Puts back the handler that [`install`] replaced, if ours is still the one in force.
pub fn uninstall() -> io::Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: sigaction fills the struct it is given; PREVIOUS was written by `install`.
    unsafe {
        let mut now: libc::sigaction = core::mem::zeroed();
        if *installed
            && libc::sigaction(libc::SIGSEGV, ptr::null(), &mut now) == 0
            && now.sa_sigaction == handler::on_fault as *const () as usize
        {
            let previous = (*handler::PREVIOUS.0.get()).assume_init_ref();
            if libc::sigaction(libc::SIGSEGV, previous, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            *installed = false;
        }
    }
    Ok(())
}

/// The alternate signal stack of one thread; dropping it puts the previous one back.
struct Cover {
    stack: PoolStack,
    previous: libc::stack_t,
}

std::thread_local! {
    static COVER: RefCell<Option<Cover>> = const { RefCell::new(None) };
}

/// Gives the calling thread an alternate signal stack large enough for the report, until it ends.
// A call, for the reason that `blocks` gives.
#[inline(never)]
pub fn cover_thread() -> io::Result<()> {
    COVER
        .try_with(|cover| {
            let mut cover = cover.borrow_mut();
            if cover.is_none() {
                *cover = Some(Cover::new()?);
            }
            Ok(())
        })
        .unwrap_or_else(|gone| Err(io::Error::other(gone)))
}

impl Cover {
    fn new() -> io::Result<Cover> {
        static STACKS: Once<Result<Pool, Error>> = Once::new();
        let stacks = STACKS.get_or_make(|| {
            Pool::new(Config {
                stack_size: ALTERNATE,
                guard_size: crate::pool::PAGE,
                ..Config::default()
            })
        });
        let stack = stacks
            .as_ref()
            .map_err(|&error| error)
            .and_then(Pool::stack)
            .map_err(io::Error::other)?;
        let range = stack.range();
        let ours = libc::stack_t {
            ss_sp: ptr::with_exposed_provenance_mut(range.start),
            ss_flags: 0,
            ss_size: range.len(),
        };
        // SAFETY: the memory is the kernel's to use until `Cover` takes it back; sigaltstack fills
        // the struct it is given.
        unsafe {
            let mut previous: libc::stack_t = core::mem::zeroed();
            if libc::sigaltstack(&ours, &mut previous) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Cover { stack, previous })
        }
    }
}

impl Drop for Cover {
    /// Leaves the alternate stack alone if somebody else replaced it meanwhile.
    fn drop(&mut self) {
        // SAFETY: as in `new`. The previous stack was valid then, and its owner could not
        // know that it was replaced.
        unsafe {
            let mut now: libc::stack_t = core::mem::zeroed();
            libc::sigaltstack(ptr::null(), &mut now);
            if now.ss_sp.addr() == self.stack.range().start {
                libc::sigaltstack(&self.previous, ptr::null_mut());
            }
        }
    }
}
