//! [`Coroutine`]: the resumer's side of the switch, made safe by types.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;

use crate::arch::{self, Base};
use crate::builder::{self, Builder, DefaultStack};
use crate::error::Error;
use crate::fp::ControlWords;
use crate::stack::Stack;
use crate::suspender::Suspender;
use crate::tag;
use crate::trap::TrapHandler;
use crate::value::{Word, decode, encode};
use crate::{annotate, unwind};

/// The result of a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<Y, R> {
    /// The coroutine suspended itself with this value.
    Suspended(Y),
    /// Its body returned this; it cannot be resumed again.
    Finished(R),
}

/// The error of a resume of a coroutine whose body has ended. It gives the input back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished<I>(pub I);

/// The error of a cancellation that the coroutine caught, after which it suspended itself again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillSuspended;

/// Cancellations after which a coroutine that goes on is taken for one that cannot be ended.
pub(crate) const ATTEMPTS: usize = 8;

/// The result of the last switch.
enum End<R> {
    Returned(R),
    Cancelled,
    Panicked(unwind::Payload),
}

/// A body with a stack of its own, which runs when it is resumed and stands still when it suspends.
///
/// `I` goes in with every resume (the first one as an argument of the body), `Y` comes out with
/// every suspend, `R` at the end. Nothing on its stack may be borrowed from outside of it, because it can be forgotten
/// while it is suspended: a body that borrows runs in a [`Coroutine::scope`]. See the [crate] for what is guaranteed and
/// what is not.
pub struct Coroutine<I, Y, R, S: Stack = DefaultStack> {
    base: *mut Base,
    stack: ManuallyDrop<S>,
    /// Whether the body has ended. Neither flag is a `bool`: the compiler would put the discriminant of a
    /// `Result<S, Coroutine>` into its spare values, and hand a stack on word by word, which takes longer than two switches.
    done: u8,
    fp: u8,
    // Invariant in all three, neither Send nor Sync: the frames on the stack may hold anything.
    types: PhantomData<*mut (I, Y, R)>,
}

#[cfg(feature = "pool")]
impl<I: 'static, Y: 'static, R: 'static> Coroutine<I, Y, R> {
    /// Makes a coroutine on a stack of the default pool. Nothing of `body` runs before the first resume.
    ///
    /// # Panics
    ///
    /// When there is no stack to be had; [`Builder::spawn`] returns the error instead.
    #[inline]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
    {
        match Builder::new().spawn(body) {
            Ok(coroutine) => coroutine,
            Err(error) => panic!("no coroutine: {error}"),
        }
    }
}

impl<I: 'static, Y: 'static, R: 'static, S: Stack + 'static> Coroutine<I, Y, R, S> {
    /// Makes a coroutine on a stack that the caller provides.
    #[inline(always)]
    pub fn with_stack<F>(stack: S, body: F) -> Result<Self, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
    {
        Builder::new().spawn_on(stack, body)
    }
}

impl<I, Y, R, S: Stack> Coroutine<I, Y, R, S> {
    /// Called by the builder, once `base` is prepared.
    #[inline(always)]
    pub(crate) fn from_parts(base: *mut Base, stack: S, fp: bool) -> Self {
        Coroutine {
            base,
            stack: ManuallyDrop::new(stack),
            done: 0,
            fp: fp as u8,
            types: PhantomData,
        }
    }

    #[inline(always)]
    fn switch(&mut self, word: Word, tag: usize) -> (Word, usize) {
        let mut words = ControlWords::unset();
        if self.fp != 0 {
            words.save();
        }
        // SAFETY: `&mut self` and `done == false` (checked by the callers) say that the coroutine
        // is suspended: its link holds what `prepare` or its own switch left. Values are of the
        // types both ends share. It runs on no other thread, for `self` is not Send.
        let back = unsafe {
            let departed = annotate::before_resume(self.base);
            let back = arch::resume(self.base, word, tag);
            annotate::after_resume(self.base, departed);
            back
        };
        if self.fp != 0 {
            // SAFETY: saved above, under the same condition, which never changes.
            unsafe { words.restore() };
        }
        back
    }

    /// Runs the body until it suspends or ends.
    ///
    /// # Panics
    ///
    /// When the body has ended before; and with the body's own panic, which ends it.
    #[inline(always)]
    pub fn resume(&mut self, input: I) -> State<Y, R> {
        match self.try_resume(input) {
            Ok(state) => state,
            Err(Finished(_)) => resumed_when_done(),
        }
    }

    /// As [`Coroutine::resume`], but returns an error when the body has ended before.
    #[inline(always)]
    pub fn try_resume(&mut self, input: I) -> Result<State<Y, R>, Finished<I>> {
        if self.done != 0 {
            return Err(Finished(input));
        }
        let mut slot = ManuallyDrop::new(input);
        let (word, tag) = self.switch(encode(&mut slot), tag::VALUE);
        if tag == tag::VALUE {
            // SAFETY: this tag comes with a Y, from a suspender of this coroutine.
            return Ok(State::Suspended(unsafe { decode(word) }));
        }
        // SAFETY: word and tag are those of the last switch.
        match unsafe { self.ended(word, tag) } {
            End::Returned(value) => Ok(State::Finished(value)),
            End::Panicked(payload) => unwind::carry_on(payload),
            End::Cancelled => cancelled_when_resumed(),
        }
    }

    /// Notes the last switch and returns its result.
    ///
    /// # Safety
    ///
    /// `word` and `tag` must be fresh from the coroutine and `tag` not [`tag::VALUE`].
    #[cold]
    unsafe fn ended(&mut self, word: Word, tag: usize) -> End<R> {
        self.done = 1;
        match tag {
            // SAFETY: this tag comes with an R.
            tag::RETURNED => End::Returned(unsafe { decode(word) }),
            // SAFETY: this tag comes with a payload.
            tag::PANICKED => End::Panicked(unsafe { decode(word) }),
            _ => End::Cancelled,
        }
    }

    /// Ends a suspended coroutine by unwinding its stack, so that every destructor on it runs; for
    /// one that has ended there is nothing to do. A panic out of a destructor goes on here.
    ///
    /// A body that catches the unwinding (`catch_unwind`) and returns has ended; one that
    /// suspends instead has not, and the value it yields is dropped. Where nothing can be
    /// unwound (`no_std`, or `panic = "abort"`) a coroutine that has started stays as it is too. So does
    /// one that suspended itself in a destructor while it was being cancelled: resume it, and the
    /// unwinding goes on; that resume panics, there being no result.
    pub fn cancel(&mut self) -> Result<(), StillSuspended> {
        match self.end()? {
            Some(payload) => unwind::carry_on(payload),
            None => Ok(()),
        }
    }

    /// Cancels, and returns a panic of the body.
    pub(crate) fn end(&mut self) -> Result<Option<unwind::Payload>, StillSuspended> {
        if self.done != 0 {
            return Ok(None);
        }
        if !unwind::CAN_UNWIND && self.has_started() {
            return Err(StillSuspended);
        }
        let (word, tag) = self.switch(Word::uninit(), tag::CANCEL);
        if tag == tag::VALUE {
            // SAFETY: this tag comes with a Y.
            drop(unsafe { decode::<Y>(word) });
            return Err(StillSuspended);
        }
        if tag == tag::REFUSED {
            return Err(StillSuspended);
        }
        // SAFETY: word and tag are those of the last switch.
        match unsafe { self.ended(word, tag) } {
            End::Panicked(payload) => Ok(Some(payload)),
            End::Returned(_) | End::Cancelled => Ok(None),
        }
    }

    /// Returns whether the body has ended: it has returned, panicked or been cancelled.
    pub fn is_finished(&self) -> bool {
        self.done != 0
    }

    /// Returns whether the coroutine was resumed at least once.
    pub fn has_started(&self) -> bool {
        // SAFETY: base lives as long as self. `entry` clears
        // `data` when it takes the closure.
        unsafe { (*self.base).data.is_null() }
    }

    /// Returns the number of this coroutine, as in an overflow report.
    pub fn id(&self) -> u64 {
        // SAFETY: as in `has_started`.
        unsafe { (*self.base).id }
    }

    /// Returns the stack that it runs on.
    pub fn stack(&self) -> &S {
        &self.stack
    }

    /// Returns the addresses of the stack.
    pub fn stack_range(&self) -> Range<usize> {
        self.stack.range()
    }

    /// Returns the most bytes of the stack that were ever in use: see [`crate::pool::high_water_mark`].
    #[cfg(feature = "pool")]
    pub fn high_water_mark(&self) -> usize {
        crate::pool::high_water_mark(self.stack.range())
    }

    /// Marks the coroutine as ended, wherever it is suspended, and unwinds nothing: its stack can be used again.
    ///
    /// For code that is known to hold nothing there, when [`Coroutine::cancel`] takes too long or cannot be had
    /// (`panic = "abort"`). A closure that was never run is not dropped.
    ///
    /// # Safety
    ///
    /// It is a `longjmp` over all frames of the coroutine: no value on its stack, nor on that of a coroutine that waits in
    /// between, may need its destructor, and nobody may have a reference to one. A [scope](std::thread::scope) of threads
    /// or a pinned value on it is somebody who has.
    pub unsafe fn force_reset(&mut self) {
        self.done = 1;
    }

    /// Returns what a signal handler needs to end the coroutine when an instruction of it traps, with a result: see
    /// [`TrapHandler::return_with`].
    pub fn trap_handler(&self) -> TrapHandler<R> {
        TrapHandler::new(self.base, self.stack.range())
    }

    /// Returns the stack for another use, or the coroutine itself while it is suspended.
    #[inline(always)]
    pub fn into_stack(self) -> Result<S, Self> {
        if self.done == 0 {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, `this` is never dropped, and no frame is left on the stack.
        unsafe {
            let stack = core::ptr::read(&this.stack);
            builder::retire(this.base);
            Ok(ManuallyDrop::into_inner(stack))
        }
    }

    /// Marks at the top of the stack that no coroutine is on it any more.
    ///
    /// # Safety
    ///
    /// To be called once, when no frame is left on the stack.
    #[inline(always)]
    unsafe fn retire(&mut self) {
        // SAFETY: base came from the builder and self is about to go.
        unsafe { builder::retire(self.base) }
    }
}

/// Panics, because the coroutine had suspended itself during its cancellation and was resumed.
#[cold]
#[inline(never)]
fn cancelled_when_resumed() -> ! {
    panic!("resumed a coroutine that was being cancelled, and it ended without a result")
}

#[cold]
#[inline(never)]
fn resumed_when_done() -> ! {
    panic!("resumed a coroutine that has ended")
}

impl<I, Y, R, S: Stack> Drop for Coroutine<I, Y, R, S> {
    /// Cancels a suspended coroutine. If that fails, its frames and its stack are kept for good: other code may rely on
    /// values that are pinned there. A panic out of one of its destructors goes on here, unless this thread is
    /// unwinding already: then it is dropped.
    fn drop(&mut self) {
        // The number is bounded: a body may catch each cancellation and suspend itself again for ever.
        let ended = (0..ATTEMPTS).find_map(|_| self.end().ok());
        // SAFETY: the stack is taken once, here; it is given back only if no frame is left on it.
        unsafe {
            if self.done != 0 {
                self.retire();
                ManuallyDrop::drop(&mut self.stack);
            } else {
                ManuallyDrop::take(&mut self.stack).abandon();
            }
        }
        if let Some(Some(payload)) = ended
            && !unwind::is_unwinding()
        {
            unwind::carry_on(payload);
        }
    }
}
