//! Stacks that live in their own mappings, switched without a system call.
//!
//! A [`Coroutine`] is a body with a stack of its own: it runs when it is resumed and stands still when
//! it suspends. Suspended frames stay where they are, however deep: nothing is copied, and no
//! signal mask is saved, so a switch is a few instructions.
//!
//! ```
//! use lancet_switch::{Coroutine, State};
//!
//! let mut squares = Coroutine::new(|suspender, mut n: u64| {
//!     while n != 0 {
//!         n = suspender.suspend(n * n);
//!     }
//!     "zero"
//! });
//! assert_eq!(squares.resume(3), State::Suspended(9));
//! assert_eq!(squares.resume(4), State::Suspended(16));
//! assert_eq!(squares.resume(0), State::Finished("zero"));
//! ```
//!
//! | part | feature | what |
//! |---|---|---|
//! | [`Coroutine`], [`Builder`], [`RawStack`] | none (`no_std`) | the switch |
//! | | `std` | panics carried, cancellation by unwinding |
//! | [`pool`] | `pool` | stacks from slabs of mappings, guards, statistics, high-water marks |
//! | [`report`] | `report` | who overflowed its stack, where, and what to do |
//! | [`scheduler`] | `scheduler` | green threads |
//! | `include/lancet_switch.h` | `capi` | C and C++; built by `capi/build` |
//! | | `asan`, `tsan`, `valgrind` | telling these tools about switches |
//!
//! Linux on x86-64 (System V ABI). All features but `capi` and the tools' are on by default.
//!
//! # Guarantees
//!
//! - **What a switch keeps**: every register the ABI says a callee keeps. `mxcsr` and the x87 control
//!   word only with [`Builder::keep_fp`]; without it they belong to the thread, and a side that
//!   changes them changes them for the other. The mask of signals, thread-local storage and errno
//!   belong to the thread. No system call is made.
//! - **The end**: a body that returns hands over its result; one that panics has run its destructors,
//!   and the panic goes on in the resumer. Either way the coroutine [is finished] and its stack can
//!   be used again. Resuming it panics, [`Coroutine::try_resume`] returns an error.
//! - **Cancellation** ([`Coroutine::cancel`], and dropping): the suspended stack is unwound, every
//!   destructor on it runs once, on that stack. One that was never resumed just drops its closure.
//!   A body can catch the unwinding: if it then returns it has ended; if it suspends it has not, and
//!   `cancel` says so; and so it does for one that suspends in a destructor, which cannot be unwound
//!   again from there, only resumed. A coroutine that cannot be ended when it is dropped (after eight attempts) keeps
//!   its stack and all that is on it for good: [`pool::Stats::abandoned`] counts these.
//! - **Nesting**: a coroutine may resume others, which may suspend any coroutine they are called from;
//!   the chain in between stands still as a whole, and a cancellation unwinds all of it.
//! - **Threads**: a `Coroutine` is not `Send`: resuming it from another thread does not compile. (In C
//!   it is allowed while the fiber is suspended, for fibers that hold no address of thread-local
//!   storage across a suspend.) Pools are shared between threads.
//!
//!   ```compile_fail,E0277
//!   let mut coroutine = lancet_switch::Coroutine::<(), (), ()>::new(|_, ()| ());
//!   std::thread::spawn(move || coroutine.resume(()));
//!   ```
//! - **fork** in a coroutine goes on in both processes, suspended coroutines included. **Signals** may
//!   be handled on any stack, at any instruction of a switch. **`setjmp`/`longjmp`** work within
//!   one stack.
//! - **Backtraces** lead from a coroutine into its resumer: with unwind tables (gdb, panics) and with
//!   frame pointers. `perf --call-graph dwarf` copies one stack only and ends where that ends.
//! - **Overflow**: with a guard ([`pool`]) it is a fault, not corruption, if the function at fault
//!   probes its stack (all Rust code does) or its frame is smaller than the guard.
//! - **Errors**: making a stack or a coroutine fails with an [`Error`], never with an abort: sizes of
//!   zero or beyond any address space, no memory for a stack, no mappings, no guard, a shadow stack.
//!   [`Coroutine::new`] turns it into a panic. (A pool itself, and what the scheduler keeps of a task,
//!   come from the global allocator, which aborts when it has no memory.)
//!
//! # Without an unwinder
//!
//! With `panic = "abort"`, or without `std`, nothing can be unwound. A panic in a body ends the
//! process. `cancel` works on a coroutine that was never resumed and refuses every other; dropping a
//! suspended one abandons its stack. That is a leak, not a fault: somebody may have pinned an
//! object on that stack and rely on its destructor, so the memory is never used again.
//! The C interface unwinds with libgcc's own means and does not depend on how this crate is compiled.
//!
//! # Undefined
//!
//! - Leaving a stack other than by a switch or by unwinding: `longjmp` from one stack to another,
//!   `swapcontext` within a coroutine and back out of it by a switch.
//! - `pthread_exit` or `pthread_cancel` in a coroutine: the unwinding cannot be caught by Rust and
//!   aborts; in a C fiber it unwinds the resumer too, and the fibers it passed stay "running".
//! - A C++ exception out of the body of a Rust [`Coroutine`] aborts (the standard library's rule). Out of
//!   a C fiber it is carried.
//! - Suspending while an exception is being handled (in a C++ `catch` block, in a destructor during
//!   unwinding) is allowed, but the count of exceptions in flight belongs to the thread: others see it
//!   (`std::thread::panicking`, `std::uncaught_exceptions`), and C++ handlers of different fibers must
//!   then end in the reverse order they began. To cancel a coroutine that suspended in a destructor while
//!   a *panic* of its own unwound it aborts.
//! - A [`RawStack`] whose memory is not as its constructor demands.
//! - `fork` in a signal handler that interrupted this crate in the middle of making or giving back a
//!   stack, or another fork: it returns, but pools may stay locked in the child. (Any other fork is fine
//!   for pools, whatever other threads do. Only the overflow report must not be installed or uninstalled
//!   in the child if another thread was just doing so.)
//! - Shadow stacks (CET): recognised, and refused with [`Error::ShadowStack`]. They could not be tested
//!   on the machines at hand.
//!
//! [is finished]: Coroutine::is_finished

#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

mod annotate;
mod arch;
mod builder;
#[cfg(feature = "capi")]
mod capi;
mod coroutine;
mod entry;
mod error;
mod fp;
#[cfg(feature = "pool")]
pub mod pool;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "scheduler")]
pub mod scheduler;
mod stack;
mod suspender;
mod tag;
mod unwind;
mod value;

pub use builder::{Builder, DefaultStack};
pub use coroutine::{Coroutine, Finished, State, StillSuspended};
pub use error::Error;
pub use stack::{RawStack, Stack};
pub use suspender::Suspender;
