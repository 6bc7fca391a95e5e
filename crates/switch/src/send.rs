//! [`SendCoroutine`]: a coroutine that may go on in another thread, if its maker answers for it.

use core::ops::Range;

use crate::builder::DefaultStack;
use crate::coroutine::{Coroutine, Finished, State, StillSuspended};
use crate::stack::Stack;

/// A coroutine that may be moved to another thread while it is suspended: see [`Coroutine::into_send`]. Its methods are
/// those of [`Coroutine`].
///
/// It does not lend the coroutine: through a `&mut Coroutine` it could change places with one that must not move.
pub struct SendCoroutine<I, Y, R, S: Stack = DefaultStack>(Coroutine<I, Y, R, S>);

// SAFETY: a Coroutine is not Send because of what its frames may hold. Whoever called `into_send` has answered for that. What
// goes in and out, and the stack, are Send here; the panic of a body is Send by its type; the base is memory that any thread
// may free.
unsafe impl<I: Send, Y: Send, R: Send, S: Stack + Send> Send for SendCoroutine<I, Y, R, S> {}

impl<I, Y, R, S: Stack> Coroutine<I, Y, R, S> {
    /// Makes a coroutine that may be moved to another thread while it is suspended.
    ///
    /// No type says what a function keeps on its stack across a suspend, so no safe function can do this. (An `async`
    /// block has such a type, because the compiler knows each of its frames.)
    ///
    /// # Safety
    ///
    /// Wherever the coroutine is suspended, and it is on another thread later:
    ///
    /// - each value on its stack is one that may be sent: no `Rc`, no guard of a `Mutex`, no coroutine of its own that is
    ///   not such a one. The closure counts as one of these values from the start.
    /// - no frame keeps the address of something thread-local. That is also an address which the compiler keeps: a function
    ///   that uses a thread-local variable before and after a suspend may compute its address once. Let functions use it
    ///   that are not inlined (`#[inline(never)]`) and do not suspend. `errno` is such a variable. (The functions of this
    ///   crate are such ones where they use variables of their own: a body may make and drop coroutines in each thread.)
    /// - no panic and no exception is on its way or being handled: their count belongs to the thread.
    ///
    /// ```
    /// use lancet_switch::{Coroutine, State};
    ///
    /// let mut sum = Coroutine::new(|suspender, mut total: u64| {
    ///     loop {
    ///         total += suspender.suspend(total);
    ///     }
    /// });
    /// assert_eq!(sum.resume(1), State::<u64, ()>::Suspended(1));
    /// // SAFETY: all that is on its stack is a number.
    /// let mut sum = unsafe { sum.into_send() };
    /// let there = std::thread::spawn(move || sum.resume(2));
    /// assert_eq!(there.join().unwrap(), State::Suspended(3));
    /// ```
    pub unsafe fn into_send(self) -> SendCoroutine<I, Y, R, S> {
        SendCoroutine(self)
    }
}

impl<I, Y, R, S: Stack> SendCoroutine<I, Y, R, S> {
    /// Returns the coroutine, which stays in this thread.
    pub fn into_inner(self) -> Coroutine<I, Y, R, S> {
        self.0
    }

    /// As [`Coroutine::resume`].
    ///
    /// # Panics
    ///
    /// When the body has ended before; and with the body's own panic, which ends it.
    #[inline(always)]
    pub fn resume(&mut self, input: I) -> State<Y, R> {
        self.0.resume(input)
    }

    /// As [`Coroutine::try_resume`].
    #[inline(always)]
    pub fn try_resume(&mut self, input: I) -> Result<State<Y, R>, Finished<I>> {
        self.0.try_resume(input)
    }

    /// As [`Coroutine::cancel`].
    pub fn cancel(&mut self) -> Result<(), StillSuspended> {
        self.0.cancel()
    }

    /// As [`Coroutine::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// As [`Coroutine::has_started`].
    pub fn has_started(&self) -> bool {
        self.0.has_started()
    }

    /// As [`Coroutine::id`].
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// As [`Coroutine::stack_range`].
    pub fn stack_range(&self) -> Range<usize> {
        self.0.stack_range()
    }
}
