//! A closure on another stack, without a coroutine that one could see: [`on_stack`] and [`Suspender::on_parent_stack`].
//!
//! Both are a [scope](crate::Builder::scope_on) that is resumed once and whose suspender nobody gets. So panics, backtraces,
//! the overflow report and the tools' notes are those of every coroutine, and the argument why a closure may borrow is the
//! same.

use core::ops::Range;

use crate::arch::{self, ALIGN, Base};
use crate::builder::{Builder, least};
use crate::coroutine::State;
use crate::error::Error;
use crate::stack::Stack;
use crate::suspender::Suspender;

/// Bytes that a stack is said to have when its lowest address is not known, if the closure takes no more. Nobody is told the
/// number. Whether the bytes that the closure takes are there is tried: see [`touch`].
const ASSUMED: usize = 1 << 20;

/// Bytes between two addresses that [`touch`] writes: the least that a guard has.
const PAGE: usize = 4096;

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
    /// coroutine. It is an error only if the resumer's stack has no room for the closure. Where the bounds of that stack are
    /// not known (it is from no pool) a closure without room is an overflow, as with a call of a function with a large frame.
    ///
    /// If the caller is such a closure of this coroutine, and so on the resumer's stack already, `body` runs in place.
    ///
    /// # Panics
    ///
    /// When the coroutine does not run: it has no resumer then.
    ///
    /// # Aborts
    ///
    /// While `body` has not ended, what is below the resumer's frames is in use. To call this from somewhere else then
    /// aborts the process: from the coroutine, when one that it has resumed has gone to the resumer's stack and suspended
    /// itself there; or from a third stack, to which `body` has gone on.
    ///
    /// And the resumer cannot go on while `body` is below its frames. So to suspend this coroutine from `body`, or to end it
    /// while a coroutine that it resumed has gone to the resumer's stack, aborts the process, with a line on stderr. A
    /// suspender cannot be kept out of `body` by a type: a thread-local variable can lend it, as the
    /// scheduler does. Coroutines further out may be suspended: all that waits is then suspended with
    /// them.
    pub fn on_parent_stack<F, T>(&self, body: F) -> Result<T, Error>
    where
        F: FnOnce() -> T,
    {
        self.must_run();
        let base = self.base();
        // SAFETY: the body of the coroutine has not ended, so its base is alive.
        let link = unsafe { (*base).link };
        // SAFETY: it is the link of a live coroutine, which only this thread uses.
        if let Some(resumer) = unsafe { arch::Refusal::stands_for(link) } {
            // SAFETY: the base is alive.
            if unsafe { is_below(base, resumer) } {
                return Ok(body());
            }
            arch::abort(TWICE);
        }
        // SAFETY: as above, and the link is where the resumer stands still. Nothing of it is below that, because a switch is
        // no leaf function's and leaves no red zone. Nor has another closure gone there, because the link is not closed.
        let stack = unsafe { ParentStack::below(base, least(size_of::<F>(), align_of::<F>())) };
        let mut image = arch::Refusal::new(link);
        // SAFETY: as above. The image stays in this frame, and `closed` puts the link back before the frame ends.
        let closed = unsafe { Closed::new(base, image.link()) };
        let result = on_stack(stack, body);
        drop(closed);
        result
    }
}

/// Why the process ends when a closure cannot go to the resumer's stack because one is there.
const TWICE: &str = "a closure was to run on the stack of a coroutine's resumer (on_parent_stack) while another has not ended there. The process is aborted, because the one would overwrite the other";

/// Returns whether the caller is on the stack of the resumer that stands still at `resumer`, below its frames. Where the
/// bounds of that stack are not known it may be another one below it: nothing but the place where a closure runs depends on
/// the answer.
///
/// # Safety
///
/// The coroutine must be alive.
unsafe fn is_below(base: *mut Base, resumer: usize) -> bool {
    let here = arch::stack_pointer();
    // SAFETY: the caller promises a live Base.
    match unsafe { limit_of(base, resumer) } {
        Some(limit) => (limit..resumer).contains(&here),
        None => here < resumer && !is_in_a_pool(here),
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
    /// Returns what is below the frames of the coroutine's resumer. Where the bounds of that stack are not known, its
    /// highest `bytes` are touched: they are there when this returns.
    ///
    /// # Safety
    ///
    /// The coroutine must be running until the stack is dropped, nobody switch to its resumer, and nobody use what is
    /// below the resumer's frames.
    unsafe fn below(base: *mut Base, bytes: usize) -> Self {
        // SAFETY: the caller promises a live Base.
        let link = unsafe { (*base).link };
        let top = link & !(ALIGN - 1);
        // SAFETY: as above.
        let limit = match unsafe { limit_of(base, link) } {
            Some(limit) => limit,
            None => {
                // SAFETY: the caller promises that nobody uses it.
                unsafe { touch(top, bytes) };
                top.saturating_sub(bytes.max(ASSUMED))
            }
        };
        ParentStack {
            range: limit.min(top)..top,
        }
    }
}

/// Writes to each page of the `bytes` below `top`, from the top downward, as the prologue of a function with a large frame
/// does. So a guard below the stack is met before anything below the guard is written, and a stack that the kernel
/// enlarges is enlarged.
///
/// # Safety
///
/// What is of a stack below `top`, down to its guard, must be nobody's.
unsafe fn touch(top: usize, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        done = bytes.min(done + PAGE);
        let Some(at) = top.checked_sub(done) else {
            return;
        };
        // SAFETY: the address is at most a page below one that is the stack's, so it is the stack's, and nobody's as the
        // caller promises, or it is the guard's, and this faults.
        unsafe { core::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(0) };
    }
}

/// Returns the lowest address of the resumer's stack, as AddressSanitizer has it.
///
/// # Safety
///
/// The coroutine must be alive.
#[cfg(feature = "asan")]
unsafe fn limit_of(base: *mut Base, _resumer: usize) -> Option<usize> {
    // SAFETY: the caller promises a live Base; the bounds were noted on the way in.
    Some(unsafe { crate::annotate::resumers_limit(base) })
}

/// Returns the lowest address of the stack of the resumer that stands still at `resumer`, if it is known: that of a pool's
/// stack.
///
/// # Safety
///
/// The coroutine must be alive.
#[cfg(not(feature = "asan"))]
unsafe fn limit_of(_base: *mut Base, _resumer: usize) -> Option<usize> {
    #[cfg(feature = "pool")]
    if let Some(slot) = crate::pool::find(_resumer - 1) {
        return Some(slot.limit);
    }
    None
}

/// Returns whether an address is known to be in a pool's stack.
fn is_in_a_pool(_address: usize) -> bool {
    #[cfg(feature = "pool")]
    return crate::pool::find(_address).is_some();
    #[cfg(not(feature = "pool"))]
    false
}

// SAFETY: the resumer stands still above `top` and nobody can make it go on before this value is dropped: its only way to
// go on is the link, which `on_parent_stack` has closed. Nor does a second closure go below it meanwhile, because a closed
// link makes `on_parent_stack` run it in place or abort. So what lies below is used by nobody; a signal handler uses the
// stack that runs. Where the lowest address is assumed, the bytes that the closure and the first frames take were touched,
// and what comes below them is for frames that probe, as on every stack. If the value is forgotten, because the frames of
// `on_parent_stack` are, the link stays closed for good.
unsafe impl Stack for ParentStack {
    fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}
