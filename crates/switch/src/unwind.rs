//! Panics carried across a switch, and cancellation.
//!
//! A panic must not run off the top of a coroutine's stack: it is caught in the coroutine's first
//! function, carried over as a value and raised again in the resumer. Cancelling is a panic of our
//! own, raised without the panic hook where the coroutine is suspended, so that every destructor on
//! its stack runs; its payload names the coroutine, because it may have to cross others on its
//! way (an inner coroutine may suspend an outer one).
//!
//! A stack that is being unwound for one cancellation cannot be unwound for a second: if a destructor
//! suspends meanwhile, further cancellations are refused ([`can_cancel`]).
//!
//! Both need the standard library (`core` can raise and catch nothing) and `panic = "unwind"`. Else
//! [`CAN_UNWIND`] is false: a panic ends the process before it reaches us, and a suspended
//! coroutine that is dropped leaves its stack alone for good.

use crate::arch::Base;

/// How a coroutine's body ended.
pub enum Outcome<R> {
    /// The body returned this value.
    Returned(R),
    /// The body was cancelled and let itself be unwound.
    #[cfg(all(feature = "std", panic = "unwind"))]
    Cancelled,
    /// The body panicked, with this payload.
    #[cfg(all(feature = "std", panic = "unwind"))]
    Panicked(Payload),
}

#[cfg(all(feature = "std", panic = "unwind"))]
mod with_unwinder {
    use super::{Base, Outcome};
    use std::any::Any;
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// The payload of a panic.
    pub type Payload = Box<dyn Any + Send>;

    /// Whether a suspended stack can be unwound.
    pub const CAN_UNWIND: bool = true;

    /// Payload of a cancellation: the address of the [`Base`] of the coroutine to end.
    struct Cancelled(usize);

    /// Whether the running stack can be unwound. Not if a cancellation was raised here before and the
    /// thread is unwinding: that may be this stack, in a destructor that suspended, and a second
    /// unwinding would abort. (Or a body that caught the first one is dropped by a panic of its
    /// resumer: it is refused too.)
    ///
    /// # Safety
    ///
    /// `base` must be that of the coroutine that runs here.
    pub unsafe fn can_cancel(base: *mut Base) -> bool {
        // SAFETY: the caller promises a live Base.
        unsafe { (*base).state == 0 || !is_unwinding() }
    }

    /// Unwinds the running stack up to the first function of `base`.
    ///
    /// # Safety
    ///
    /// As [`can_cancel`].
    #[cold]
    pub unsafe fn cancel_here(base: *mut Base) -> ! {
        // SAFETY: the caller promises a live Base.
        unsafe { (*base).state = 1 };
        resume_unwind(Box::new(Cancelled(base.addr())))
    }

    /// Runs the body of `base`'s coroutine and stops whatever unwinds out of it.
    #[inline]
    pub fn contain<R>(base: *mut Base, body: impl FnOnce() -> R) -> Outcome<R> {
        // Unwind safety: nothing of the body is looked at again but its payload.
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(value) => Outcome::Returned(value),
            Err(payload) => match payload.downcast_ref::<Cancelled>() {
                Some(cancelled) if cancelled.0 == base.addr() => Outcome::Cancelled,
                _ => Outcome::Panicked(payload),
            },
        }
    }

    /// Returns whether a payload is that of a cancellation.
    #[cfg(feature = "scheduler")]
    pub fn is_cancellation(payload: &(dyn Any + Send)) -> bool {
        payload.is::<Cancelled>()
    }

    /// Goes on with a panic in the resumer.
    #[cold]
    pub fn carry_on(payload: Payload) -> ! {
        resume_unwind(payload)
    }

    /// Returns whether this thread is unwinding already, so that a second panic would abort.
    pub fn is_unwinding() -> bool {
        std::thread::panicking()
    }
}

#[cfg(all(feature = "std", panic = "unwind", feature = "scheduler"))]
pub use with_unwinder::is_cancellation;
#[cfg(all(feature = "std", panic = "unwind"))]
pub use with_unwinder::{
    CAN_UNWIND, Payload, can_cancel, cancel_here, carry_on, contain, is_unwinding,
};

#[cfg(not(all(feature = "std", panic = "unwind")))]
mod without_unwinder {
    use super::{Base, Outcome};

    /// Cannot be made, because no panic is caught.
    pub struct Payload(());

    /// Whether a suspended stack can be unwound.
    pub const CAN_UNWIND: bool = false;

    /// Never called: nothing sends a cancellation when [`CAN_UNWIND`] is false.
    pub unsafe fn can_cancel(_base: *mut Base) -> bool {
        false
    }

    /// Never called, for the same reason.
    #[cold]
    pub unsafe fn cancel_here(_base: *mut Base) -> ! {
        unreachable!("cancelled without an unwinder")
    }

    /// Runs the body. A panic in it ends the process: with `panic = "abort"` at once, else in the
    /// `extern "C"` function that called this.
    #[inline]
    pub fn contain<R>(_base: *mut Base, body: impl FnOnce() -> R) -> Outcome<R> {
        Outcome::Returned(body())
    }

    /// Returns false, because there are no payloads.
    #[cfg(feature = "scheduler")]
    pub fn is_cancellation(_payload: &(dyn core::any::Any + Send)) -> bool {
        false
    }

    /// Never called, for there is no payload to call it with.
    pub fn carry_on(payload: Payload) -> ! {
        let Payload(()) = payload;
        unreachable!("a panic was carried without an unwinder")
    }

    /// Returns false, because no stack is unwound.
    pub fn is_unwinding() -> bool {
        false
    }
}

#[cfg(all(not(all(feature = "std", panic = "unwind")), feature = "scheduler"))]
pub use without_unwinder::is_cancellation;
#[cfg(not(all(feature = "std", panic = "unwind")))]
pub use without_unwinder::{
    CAN_UNWIND, Payload, can_cancel, cancel_here, carry_on, contain, is_unwinding,
};
