//! A closure on another stack, without a coroutine that one could see: [`on_stack`] and [`Suspender::on_parent_stack`].
//!
//! Both are a [scope](crate::Builder::scope_on) that is resumed once and whose suspender nobody gets. So panics, backtraces,
//! the overflow report and the tools' notes are those of every coroutine, and the argument why a closure may borrow is the
//! same.

use core::ops::Range;

use crate::arch::{self, ALIGN, Base};
use crate::builder::Builder;
use crate::coroutine::State;
use crate::error::Error;
use crate::stack::Stack;
use crate::suspender::Suspender;

/// Bytes that a stack is said to have when its lowest address is not known. Nobody is told the number: it decides whether
/// the closure fits.
const ASSUMED: usize = 1 << 20;

/// Runs `body` on `stack` and returns what it returns. The stack is dropped then; to keep it, lend one whose memory is
/// yours (a [`RawStack`](crate::RawStack)).
///
/// For work that takes more stack than the caller has left: a parser, a regular expression, a library with large frames.
/// A panic of `body` goes on here. In a coroutine `body` may suspend that coroutine, and goes on with it.
///
/// ```
/// use lancet_switch::{on_stack, pool::Pool};
///
/// let words = ["deep", "down"];
/// let stack = Pool::global().stack_of(8 << 20).expect("a stack");
/// let letters = on_stack(stack, || words.concat().len()).expect("room for a closure");
/// assert_eq!(letters, 8);
/// ```
pub fn on_stack<S, F, T>(stack: S, body: F) -> Result<T, Error>
where
    S: Stack,
    F: FnOnce() -> T,
{
    Builder::new().scope_on(
        stack,
        |_: &Suspender<(), ()>, ()| body(),
        |mut call| match call.resume(()) {
            State::Finished(value) => value,
            State::Suspended(()) => unreachable!("nobody has its suspender"),
        },
    )
}

impl<I, Y> Suspender<I, Y> {
    /// Runs `body` on the stack of the resumer, below the frames that wait there, and returns what it returns.
    ///
    /// For a coroutine with a small stack that must call what needs a large one. A panic of `body` goes on here, in the
    /// coroutine. It is an error only if the resumer's stack has no room for the closure.
    ///
    /// # Aborts
    ///
    /// The resumer cannot go on while `body` is below its frames. So to suspend this coroutine from `body`, or to end it
    /// while a coroutine that it resumed has gone to the resumer's stack, aborts the process, with a line on stderr. A
    /// suspender cannot be kept out of `body` by a type: a thread-local variable can lend it, as the
    /// scheduler does. Coroutines further out may be suspended: all that waits is then suspended with
    /// them.
    pub fn on_parent_stack<F, T>(&self, body: F) -> Result<T, Error>
    where
        F: FnOnce() -> T,
    {
        let base = self.base();
        // SAFETY: the body of the coroutine runs, so its base is alive, and the link is where its resumer stands still.
        // Nothing of the resumer is below that, because a switch is no leaf function's and leaves no red zone.
        let stack = unsafe { ParentStack::below(base) };
        let mut image = arch::Refusal::new();
        // SAFETY: as above. The image stays in this frame, and `closed` puts the link back before the frame ends.
        let closed = unsafe { Closed::new(base, image.link()) };
        let result = on_stack(stack, body);
        drop(closed);
        result
    }
}

/// Puts the link of a coroutine back when it is dropped.
struct Closed {
    base: *mut Base,
    link: usize,
}

impl Closed {
    /// Makes `link` the link of the coroutine, so that whoever switches to the resumer arrives there.
    ///
    /// # Safety
    ///
    /// The coroutine must be running until the value is dropped.
    unsafe fn new(base: *mut Base, link: usize) -> Self {
        // SAFETY: the caller promises a live Base, which only this thread uses.
        let link = unsafe { core::mem::replace(&mut (*base).link, link) };
        Closed { base, link }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        // SAFETY: the coroutine runs, as the maker promised.
        unsafe { (*self.base).link = self.link };
    }
}

/// What is free of the stack of a resumer that stands still.
struct ParentStack {
    range: Range<usize>,
}

impl ParentStack {
    /// Returns what is below the frames of the coroutine's resumer.
    ///
    /// # Safety
    ///
    /// The coroutine must be running until the stack is dropped, and nobody switch to its resumer.
    unsafe fn below(base: *mut Base) -> Self {
        // SAFETY: the caller promises a live Base.
        let top = unsafe { (*base).link } & !(ALIGN - 1);
        // SAFETY: as above.
        let limit = unsafe { limit_of(base, top) };
        ParentStack {
            range: limit.min(top)..top,
        }
    }
}

/// Returns the lowest address of the resumer's stack, as AddressSanitizer has it.
#[cfg(feature = "asan")]
unsafe fn limit_of(base: *mut Base, _top: usize) -> usize {
    // SAFETY: the caller of this function promises a live Base; the bounds were noted on the way in.
    unsafe { crate::annotate::resumers_limit(base) }
}

/// Returns the lowest address of the resumer's stack, or one that is assumed for a stack from no pool.
#[cfg(not(feature = "asan"))]
unsafe fn limit_of(_base: *mut Base, top: usize) -> usize {
    #[cfg(feature = "pool")]
    if let Some(slot) = crate::pool::find(top - 1) {
        return slot.limit;
    }
    top.saturating_sub(ASSUMED)
}

// SAFETY: the resumer stands still above `top` and nobody can make it go on before this value is dropped: its only way to
// go on is the link, which `on_parent_stack` has closed. So what lies below is used by nobody; a signal handler uses the
// stack that runs. If the value is forgotten, because the frames of `on_parent_stack` are, the link stays closed for good.
unsafe impl Stack for ParentStack {
    fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}
