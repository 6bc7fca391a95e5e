//! The first function of a coroutine's stack: takes the closure, runs it, sends the outcome.

use core::mem::ManuallyDrop;

use crate::annotate;
use crate::arch::{self, Base};
use crate::coroutine::{Suspender, tag};
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
    match outcome {
        // SAFETY: `outcome` was moved out of; the slot is the only thing left on this stack and is
        // the resumer's now.
        Outcome::Returned(Some(value)) => unsafe {
            let mut slot = ManuallyDrop::new(value);
            let word = encode(&mut slot);
            annotate::before_suspend(base, true);
            arch::leave(base, word, tag::RETURNED)
        },
        // SAFETY: nothing is left on this stack.
        Outcome::Returned(None) => unsafe {
            annotate::before_suspend(base, true);
            arch::leave(base, Word::uninit(), tag::CANCELLED)
        },
        #[cfg(all(feature = "std", panic = "unwind"))]
        // SAFETY: nothing is left on this stack.
        Outcome::Cancelled => unsafe {
            annotate::before_suspend(base, true);
            arch::leave(base, Word::uninit(), tag::CANCELLED)
        },
        #[cfg(all(feature = "std", panic = "unwind"))]
        // SAFETY: as for a returned value; the payload is the resumer's now.
        Outcome::Panicked(payload) => unsafe {
            let mut slot = ManuallyDrop::new(payload);
            let word = encode(&mut slot);
            annotate::before_suspend(base, true);
            arch::leave(base, word, tag::PANICKED)
        },
    }
}
