//! [`Suspender`]: the body's side of the switch, made safe by types.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::arch::{self, Base};
use crate::fp::ControlWords;
use crate::tag;
use crate::value::{Word, decode, encode};
use crate::{annotate, unwind};

/// The body's handle to its coroutine, by which it suspends itself.
pub struct Suspender<I, Y> {
    base: *mut Base,
    fp: bool,
    types: PhantomData<*mut (I, Y)>,
}

impl<I, Y> Suspender<I, Y> {
    /// Makes the suspender that the first function of a coroutine hands to its body.
    pub(crate) fn new(base: *mut Base, fp: bool) -> Self {
        Suspender {
            base,
            fp,
            types: PhantomData,
        }
    }

    /// Returns the block of the coroutine.
    pub(crate) fn base(&self) -> *mut Base {
        self.base
    }

    /// Hands `value` to the resumer and stands still until the next resume, whose input it returns.
    ///
    /// Does not return but unwinds when the coroutine is cancelled. May be called from a coroutine
    /// that the body resumes: the whole chain then stands still, and goes on together.
    ///
    /// In a destructor that a cancellation runs it stops that cancellation: see
    /// [`Coroutine::cancel`](crate::Coroutine::cancel).
    ///
    /// # Panics
    ///
    /// When the coroutine does not run, because it is suspended: a thread-local variable can lend the suspender to its
    /// resumer. The value is dropped then.
    #[inline(always)]
    pub fn suspend(&self, value: Y) -> I {
        self.must_run();
        let mut slot = ManuallyDrop::new(value);
        let word = encode(&mut slot);
        let (word, tag) = self.switch(word, tag::VALUE);
        let word = if tag == tag::VALUE {
            word
        } else {
            self.cancelled()
        };
        // SAFETY: the word came with tag VALUE: it is an I, from a resume of this coroutine.
        unsafe { decode(word) }
    }

    /// Panics if the coroutine does not run: then its link is not its resumer's but its own.
    #[inline(always)]
    pub(crate) fn must_run(&self) {
        // SAFETY: a suspender is lent, so the body has not ended and its base is alive.
        if !unsafe { arch::is_running(self.base) } {
            does_not_run();
        }
    }

    #[inline(always)]
    fn switch(&self, word: Word, tag: usize) -> (Word, usize) {
        let mut words = ControlWords::unset();
        if self.fp {
            words.save();
        }
        // SAFETY: a suspender is lent, so the body has not ended and its base is alive. The callers have asked whether
        // the link is the resumer's, who stands still in `Coroutine::resume` and takes the value as what the types say.
        let back = unsafe {
            let departed = annotate::before_suspend(self.base, false);
            let back = arch::suspend(self.base, word, tag);
            annotate::arrived(self.base, Some(departed));
            back
        };
        if self.fp {
            // SAFETY: saved above, under the same condition, which never changes.
            unsafe { words.restore() };
        }
        back
    }

    /// Unwinds the stack; while that is impossible it refuses, and returns with the next input.
    #[cold]
    fn cancelled(&self) -> Word {
        loop {
            // SAFETY: this has just arrived from a resume, so the coroutine runs, and its link is the resumer's.
            unsafe {
                if unwind::can_cancel(self.base) {
                    unwind::cancel_here(self.base);
                }
            }
            let (word, tag) = self.switch(Word::uninit(), tag::REFUSED);
            if tag == tag::VALUE {
                return word;
            }
        }
    }

    /// As [`Coroutine::high_water_mark`](crate::Coroutine::high_water_mark), from inside.
    #[cfg(feature = "pool")]
    pub fn high_water_mark(&self) -> usize {
        // SAFETY: the body runs, so its base is alive.
        let range = unsafe { (*self.base).limit..(*self.base).top };
        crate::pool::high_water_mark(range)
    }

    /// Returns the bytes of stack between the caller and the lowest usable address of the stack that the caller runs on.
    ///
    /// That stack need not be the one of this coroutine: in a coroutine that the body resumes it is another. If that one is
    /// from no pool (or from one with so many that the overflow report does not know them all), its bounds are not known
    /// here, and the answer is 0.
    pub fn remaining_stack(&self) -> usize {
        let here = arch::stack_pointer();
        // SAFETY: the body runs, so its base is alive.
        let own = unsafe { (*self.base).limit..(*self.base).top };
        if own.contains(&here) {
            return here - own.start;
        }
        #[cfg(feature = "pool")]
        if let Some(stack) = crate::pool::find(here) {
            return here.saturating_sub(stack.limit);
        }
        0
    }
}

#[cold]
#[inline(never)]
fn does_not_run() -> ! {
    panic!("used the suspender of a coroutine that does not run: it is suspended already")
}
