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
//! | [`Coroutine::scope`], [`Scoped`] | none | bodies that borrow |
//! | [`on_stack`], [`Suspender::on_parent_stack`] | none | a closure on another stack |
//! | [`SendCoroutine`], [`TrapHandler`], [`Coroutine::force_reset`] | none | `unsafe`: other threads, traps, an end without unwinding |
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
//! - **What a switch keeps**: every register the ABI says a callee keeps. The control bits of `mxcsr` and the x87 control
//!   word only with [`Builder::keep_fp`]; without it they belong to the thread, and a side that
//!   changes them changes them for the other. Flags of floating-point exceptions, the mask of signals, thread-local storage
//!   and errno belong to the thread: an x87 flag that one side has raised traps on a side whose control word enables that exception. No system call is made.
//! - **The end**: a body that returns hands over its result; one that panics has run its destructors,
//!   and the panic goes on in the resumer. Either way the coroutine [is finished] and its stack can
//!   be used again. Resuming it panics, [`Coroutine::try_resume`] returns an error.
//! - **Cancellation** ([`Coroutine::cancel`], and dropping): the suspended stack is unwound, every
//!   destructor on it runs once, on that stack. One that was never resumed just drops its closure.
//!   A body can catch the unwinding: if it then returns it has ended; if it suspends it has not, and
//!   `cancel` says so; and so it does for one that suspends in a destructor, which cannot be unwound
//!   again from there, only resumed. A coroutine that cannot be ended when it is dropped (after eight attempts) keeps
//!   its stack and all that is on it for good: [`pool::Stats::abandoned`] counts these.
//! - **Borrowing**: the body of a [`Coroutine`] owns what it uses (`'static`); one that borrows runs in a
//!   [`Coroutine::scope`], which ends it, or the process: see [below](#what-a-body-may-borrow).
//! - **Nesting**: a coroutine may resume others, which may suspend any coroutine they are called from;
//!   the chain in between stands still as a whole, and a cancellation unwinds all of it.
//! - **Threads**: a `Coroutine` is not `Send`: resuming it from another thread does not compile, unless its maker has
//!   answered for what is on its stack ([`Coroutine::into_send`]). (In C
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
//! - **Memory**: of the stacks of a pool that wait for their next use, all but the 64 of each size that came back last keep
//!   one page ([`pool::Reuse`]). A thread keeps up to eight stacks of the process's own pool for itself.
//! - **Errors**: making a stack or a coroutine fails with an [`Error`], never with an abort: sizes of
//!   zero or beyond any address space, no memory for a stack, no mappings, no guard, a shadow stack.
//!   [`Coroutine::new`] turns it into a panic. (A pool itself, and what the scheduler keeps of a task,
//!   come from the global allocator, which aborts when it has no memory.)
//!
//! # What a body may borrow
//!
//! A frame may lend a variable to somebody who uses it until the frame ends: [`std::thread::scope`] lends it to other
//! threads. So no frame may vanish, and nothing that a frame refers to may end before it, also where the frame never runs
//! again. A suspended coroutine that is forgotten ([`core::mem::forget`], a circle of [`Rc`](std::rc::Rc)s) or that
//! cannot be ended when it is dropped has such frames, for good. They can reach:
//!
//! - **their own stack and block**. The memory stays: whoever forgets the coroutine forgets its [`Stack`], and a stack
//!   is free only when it is dropped. A [`pool`] keeps its mappings while such a stack is out, also when no handle to the
//!   pool is left. What an implementation promises for this is in the contract of [`Stack`].
//! - **what the body owns, what came in with a resume, and what was to go out**: the closure and values of `I`, `Y`, `R`
//!   and `S`. So all of these must be `'static`: what they refer to never ends.
//! - **what these frames borrow from each other**, which is on the same stack, or on that of a coroutine which belongs to
//!   one of them: a scope in a forgotten coroutine is in a frame that stays.
//!
//! Nothing else: a type with a lifetime that ends cannot come in. This program read freed memory when bodies could borrow:
//!
//! ```compile_fail,E0373
//! use std::{thread, time::Duration};
//!
//! fn victim() {
//!     let x = vec![0x41u8; 200];
//!     let mut coroutine = lancet_switch::Coroutine::<(), (), ()>::new(|suspender, ()| {
//!         thread::scope(|threads| {
//!             threads.spawn(|| {
//!                 thread::sleep(Duration::from_millis(100));
//!                 println!("{:?}", &x[0..8]);
//!             });
//!             suspender.suspend(());
//!         });
//!     });
//!     coroutine.resume(());
//!     std::mem::forget(coroutine);
//! }
//! ```
//!
//! And so did this one, which forgets nothing but catches each cancellation:
//!
//! ```compile_fail,E0373
//! use std::panic::{AssertUnwindSafe, catch_unwind};
//! use std::{thread, time::Duration};
//!
//! fn victim() {
//!     let x = vec![0x41u8; 200];
//!     let mut coroutine = lancet_switch::Coroutine::<(), (), ()>::new(|suspender, ()| {
//!         thread::scope(|threads| {
//!             threads.spawn(|| {
//!                 thread::sleep(Duration::from_millis(100));
//!                 println!("{:?}", &x[0..8]);
//!             });
//!             loop {
//!                 let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
//!             }
//!         });
//!     });
//!     coroutine.resume(());
//! }
//! ```
//!
//! Nor can a reference come in by another way, with the closure or with a resume:
//!
//! ```compile_fail,E0597
//! let x = vec![0x41u8; 200];
//! let borrowed = &x;
//! lancet_switch::Coroutine::<(), (), usize>::new(move |_, ()| borrowed.len());
//! ```
//!
//! ```compile_fail,E0597
//! let mut coroutine = lancet_switch::Coroutine::<&[u8], (), ()>::new(|_, _| ());
//! let x = vec![0x41u8; 200];
//! coroutine.resume(&x);
//! ```
//!
//! A **scope** ([`Coroutine::scope`], [`Builder::scope`], [`Builder::scope_on`]) takes any body. The coroutine is in the
//! scope's own frame, whose only ways out, a return and an unwinding, end it first, or end the process where it cannot be
//! ended. Lifetimes in the types of a call are longer than the call, so that nothing which the coroutine can reach ends
//! before it. The frame itself can vanish only as part of a stack that is forgotten, and then all that it refers to is
//! kept as said above. What a caller gets is [`Scoped`], which lends the coroutine and never gives out a
//! `&mut Coroutine`: with two of these [`core::mem::swap`] would put a coroutine into the scope of another, which
//! outlives what the first one borrows. The handle is good for any lifetime that the scope chooses (`for<'s>`), so it
//! cannot leave `run`,
//!
//! ```compile_fail,E0521
//! let mut kept = None;
//! lancet_switch::Coroutine::<(), (), ()>::scope(|_, ()| (), |handle| kept = Some(handle));
//! ```
//!
//! nor change places with the handle of another scope,
//!
//! ```compile_fail,E0521
//! use lancet_switch::Coroutine;
//!
//! fn swap<F: FnOnce(&lancet_switch::Suspender<(), ()>, ())>(one: F, two: F) {
//!     Coroutine::scope(one, |mut one| {
//!         Coroutine::scope(two, |mut two| std::mem::swap(&mut one, &mut two));
//!     });
//! }
//! ```
//!
//! and what it lends cannot be named:
//!
//! ```compile_fail,E0616
//! lancet_switch::Coroutine::<(), (), ()>::scope(|_, ()| (), |handle| drop(handle.coroutine));
//! ```
//!
//! A closure on another stack is such a scope, which is resumed once: [`on_stack`] gives its suspender to nobody. For
//! [`Suspender::on_parent_stack`] the scope's stack is what is free of the resumer's, below the frames that wait there. They
//! wait as long as nobody switches to them, and the only way to do so is the link in the block of the coroutine, which a
//! resume has written and which every suspend, return and panic of that coroutine goes by. While the closure has not ended,
//! that link leads to an image which aborts. The image also says that the stack is taken: a second closure, by whatever way
//! its caller came to the suspender, runs in place if the caller is on that stack already, and aborts if not. The link is put
//! back when the closure has returned or was unwound; if the frames that
//! would put it back are forgotten, it aborts for good. So no bound on the closure is needed: a suspender that a
//! thread-local variable lends ends the process, where a bound of `Send` would let it corrupt the resumer's stack. Where the
//! bounds of the resumer's stack are not known (a thread's, a [`RawStack`], a pool's that the table of stacks has no row
//! for), each page that the closure will take is written first, from the highest downward, so that a closure without room
//! meets the guard, as a function with a large frame does.
//!
//! One thing no type can forbid: **thread-local storage**. [`LocalKey::with`](std::thread::LocalKey::with), and crates
//! that lend a reference for the time of a call in the same manner, know no suspend: what such a reference refers to can be
//! destroyed, by the end of the thread or by a call that returns, while a coroutine is suspended in the closure that got
//! the reference. Do not suspend there.
//!
//! # Who may suspend
//!
//! A body that suspends itself while a thread-local variable lends its [`Suspender`] has lent it to its resumer, who can then
//! suspend a coroutine that does not run. What tells the two sides of a coroutine apart is the lowest bit of its link
//! (module `arch`): it is set while the coroutine stands still. A suspender asks it, and panics if the coroutine does not run,
//! before anything is passed over: else a yielded value would arrive in the body as an input. It is one bit of a word that a
//! switch reads and writes anyway, and the cost cannot be told from noise (benches/switch/RESULTS.md has the measurement).
//!
//! So a link is used once, by the side that it is for: a resume takes a marked one and leaves one without a mark, a suspend
//! and the end of a body take one without and leave a marked one or none. Each value arrives where its type is expected,
//! whoever passes it, and on a stack that stands, because the frame that waits there has not ended. That holds also where a
//! coroutine is suspended from outside that runs only as a part of a chain which stands still: the coroutine further out then
//! goes on without a resume, in the place of whoever did that. It may do all but suspend itself (a panic) and end: there
//! is nobody to go back to, and the process is aborted with a line on stderr.
//!
//! # Without an unwinder
//!
//! With `panic = "abort"`, or without `std`, nothing can be unwound. A panic in a body ends the
//! process. `cancel` works on a coroutine that was never resumed and refuses every other; dropping a
//! suspended one abandons its stack. That is a leak, not a fault: somebody may have pinned an
//! object on that stack and rely on its destructor, so the memory is never used again. A scope whose coroutine is
//! suspended at its end aborts: resume it until it has ended.
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
//! - A [`RawStack`] whose memory is not as its constructor demands, or another [`Stack`] that breaks its contract.
//! - Suspending in the closure of [`LocalKey::with`](std::thread::LocalKey::with), if the reference is used after the value
//!   was destroyed: see [above](#what-a-body-may-borrow).
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
#[cfg(feature = "std")]
mod blocks;
mod builder;
#[cfg(feature = "capi")]
mod capi;
mod coroutine;
mod elsewhere;
mod entry;
mod error;
mod fp;
#[cfg(feature = "pool")]
pub mod pool;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "scheduler")]
pub mod scheduler;
mod scope;
mod send;
mod stack;
mod suspender;
mod tag;
mod trap;
mod unwind;
mod value;

pub use builder::{Builder, DefaultStack};
pub use coroutine::{Coroutine, Finished, State, StillSuspended};
pub use elsewhere::on_stack;
pub use error::Error;
pub use scope::Scoped;
pub use send::SendCoroutine;
pub use stack::{RawStack, Stack};
pub use suspender::Suspender;
pub use trap::{TrapHandler, TrapRegisters};
