//! The first function on a coroutine's stack: it takes the closure, runs it, and hands over the outcome.

use core::mem::ManuallyDrop;

use crate::annotate;
use crate::arch::{self, Base};
use crate::suspender::Suspender;
use crate::tag;
use crate::unwind::{Outcome, contain};
use crate::value::{Word, decode, encode};

/// Runs the body `F` that the builder left at `base.data`.
///
/// # Safety
///
/// Entered by the first switch into `base` only, which carries an `I` or a cancellation.
pub(crate) unsafe extern "C" fn first<I, Y, R, F>(word: Word, tag: usize, base: *mut Base) -> !
where
    F: FnOnce(&Suspender<I, Y>, I) -> R,
{
    // SAFETY: base lives until the coroutine is retired, which is after this function; `data` holds
    // an F that is taken once, here; the word is an I exactly when the tag says so.
    let outcome = unsafe {
        annotate::arrived(base, None);
        let body = (*base).data.cast::<F>().read();
        (*base).data = core::ptr::null_mut();
        let suspender = Suspender::new(base, (*base).fp);
        contain(base, move || {
            // Dropping the closure is all there is to unwind before the first resume, and needs no
            // unwinder.
            (tag == tag::VALUE).then(|| body(&suspender, decode(word)))
        })
    };
    // SAFETY: this is the coroutine's own stack, and nothing is left on it but the outcome.
    unsafe { end(base, outcome) }
}

/// Runs the closure that a [trap handler](crate::TrapHandler) left at `base.data`, in place of all that the body was doing.
///
/// # Safety
///
/// Entered once, on the stack of the running coroutine, of whose frames nobody needs any. `data` holds an F, and the
/// coroutine's result is an R.
pub(crate) unsafe extern "C" fn last<R, F>(_word: Word, _tag: usize, base: *mut Base) -> !
where
    F: FnOnce() -> R,
{
    // SAFETY: the caller promises the closure, which is taken once, here, and a stack that is free.
    unsafe {
        let body = (*base).data.cast::<F>().read();
        (*base).data = core::ptr::null_mut();
        let outcome = contain(base, move || Some(body()));
        end(base, outcome)
    }
}

/// Hands over the outcome and leaves the stack for good.
///
/// # Safety
///
/// As [`arch::leave`].
#[inline(always)]
unsafe fn end<R>(base: *mut Base, outcome: Outcome<Option<R>>) -> ! {
    // SAFETY: whatever was in `outcome` is moved to a slot that is the resumer's, which takes it out
    // before this stack is used again; nothing else is left on it.
    unsafe {
        match outcome {
            Outcome::Returned(Some(value)) => {
                let mut slot = ManuallyDrop::new(value);
                leave(base, encode(&mut slot), tag::RETURNED)
            }
            #[cfg(all(feature = "std", panic = "unwind"))]
            Outcome::Panicked(payload) => {
                let mut slot = ManuallyDrop::new(payload);
                leave(base, encode(&mut slot), tag::PANICKED)
            }
            Outcome::Returned(None) => leave(base, Word::uninit(), tag::CANCELLED),
            #[cfg(all(feature = "std", panic = "unwind"))]
            Outcome::Cancelled => leave(base, Word::uninit(), tag::CANCELLED),
        }
    }
}

/// Why the process ends when a body ends that was suspended and goes on without a resume: it has no resumer to go back to.
const LEFT: &str = "the body of a suspended coroutine has ended. It went on when a coroutine that it had resumed was suspended from outside, by a suspender that a thread-local variable lent. The process is aborted, because nobody waits for its result";

/// Makes the last switch.
///
/// # Safety
///
/// As [`arch::leave`].
#[inline(always)]
unsafe fn leave(base: *mut Base, word: Word, tag: usize) -> ! {
    // SAFETY: the caller's promise is the same.
    unsafe {
        if !arch::is_running(base) {
            arch::abort(LEFT);
        }
        annotate::before_suspend(base, true);
        arch::leave(base, word, tag)
    }
}
