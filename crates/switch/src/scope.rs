//! Coroutines whose bodies borrow: [`Coroutine::scope`], [`Builder::scope`], [`Builder::scope_on`], and [`Scoped`], the
//! handle by which such a coroutine is resumed.
//!
//! ```text
//!   scope ──► makes the coroutine, in its own frame (Owner)
//!     run(Scoped) ──resume──► body ──suspend──► run …
//!   scope ◄── run returns, or unwinds
//!     Owner is dropped: the coroutine is unwound to its end, or the process is aborted
//! ```
//!
//! The owner is in the frame of [`scope_on`](Builder::scope_on) and nobody else can name it, so no safe code can forget it
//! or move it out. The argument why that is enough is in the documentation of the [crate].

use core::ops::Range;

use crate::builder::{Builder, DefaultStack};
use crate::coroutine::{ATTEMPTS, Coroutine, Finished, State, StillSuspended};
use crate::error::Error;
use crate::stack::Stack;
use crate::suspender::Suspender;
use crate::unwind;

/// The handle of a coroutine that lives as long as a scope: see [`Coroutine::scope`]. Its methods are those of
/// [`Coroutine`].
///
/// It lends the coroutine and does not own it: whatever is done with the handle, the scope ends the coroutine that it
/// has made.
pub struct Scoped<'s, I, Y, R, S: Stack = DefaultStack> {
    // Never given out: two coroutines could be swapped through it, and each be ended by the scope of the other.
    coroutine: &'s mut Coroutine<I, Y, R, S>,
}

impl<I, Y, R, S: Stack> Scoped<'_, I, Y, R, S> {
    /// As [`Coroutine::resume`].
    ///
    /// # Panics
    ///
    /// When the body has ended before; and with the body's own panic, which ends it.
    #[inline(always)]
    pub fn resume(&mut self, input: I) -> State<Y, R> {
        self.coroutine.resume(input)
    }

    /// As [`Coroutine::try_resume`].
    #[inline(always)]
    pub fn try_resume(&mut self, input: I) -> Result<State<Y, R>, Finished<I>> {
        self.coroutine.try_resume(input)
    }

    /// As [`Coroutine::cancel`].
    pub fn cancel(&mut self) -> Result<(), StillSuspended> {
        self.coroutine.cancel()
    }

    /// As [`Coroutine::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.coroutine.is_finished()
    }

    /// As [`Coroutine::has_started`].
    pub fn has_started(&self) -> bool {
        self.coroutine.has_started()
    }

    /// As [`Coroutine::id`].
    pub fn id(&self) -> u64 {
        self.coroutine.id()
    }

    /// As [`Coroutine::stack`].
    pub fn stack(&self) -> &S {
        self.coroutine.stack()
    }

    /// As [`Coroutine::stack_range`].
    pub fn stack_range(&self) -> Range<usize> {
        self.coroutine.stack_range()
    }

    /// As [`Coroutine::high_water_mark`].
    #[cfg(feature = "pool")]
    pub fn high_water_mark(&self) -> usize {
        self.coroutine.high_water_mark()
    }
}

#[cfg(feature = "pool")]
impl<I, Y, R> Coroutine<I, Y, R> {
    /// Makes a coroutine whose body may borrow, on a stack of the default pool, hands it to `run`, and ends it when `run`
    /// returns or unwinds. Returns what `run` returns.
    ///
    /// ```
    /// use lancet_switch::{Coroutine, State};
    ///
    /// let words = vec![String::from("one"), String::from("two")];
    /// let mut lengths = Vec::new();
    /// let ended = Coroutine::scope(
    ///     |suspender, ()| words.iter().for_each(|word| suspender.suspend(word.as_str())),
    ///     |mut each| {
    ///         while let State::Suspended(word) = each.resume(()) {
    ///             lengths.push(word.len());
    ///         }
    ///         each.is_finished()
    ///     },
    /// );
    /// assert!(ended);
    /// assert_eq!(lengths, [3, 3]);
    /// ```
    ///
    /// # The end
    ///
    /// A coroutine that is suspended then is unwound, as by [`Coroutine::cancel`]; one that was never resumed drops its
    /// closure. A panic out of that closure, or of a body that has caught the unwinding, goes on here, unless this thread
    /// is unwinding already: then it is dropped. (One out of a destructor that the unwinding runs aborts, as everywhere in
    /// Rust.)
    ///
    /// # Aborts
    ///
    /// When the coroutine cannot be ended, because what it borrows could end before it does: it caught or refused eight
    /// cancellations, or it is suspended and nothing can be unwound (`no_std`, or `panic = "abort"`). With `std` a line on
    /// stderr says so, without it a trap instruction ends the process.
    ///
    /// # Panics
    ///
    /// When there is no stack to be had; [`Builder::scope`] returns the error instead.
    pub fn scope<F, G, T>(body: F, run: G) -> T
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
        G: for<'s> FnOnce(Scoped<'s, I, Y, R>) -> T,
    {
        match Builder::new().scope(body, run) {
            Ok(value) => value,
            Err(error) => panic!("no coroutine: {error}"),
        }
    }
}

impl Builder<'_> {
    /// As [`Coroutine::scope`], with these settings. `run` is not called when there is an error.
    #[cfg(feature = "pool")]
    pub fn scope<I, Y, R, F, G, T>(self, body: F, run: G) -> Result<T, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
        G: for<'s> FnOnce(Scoped<'s, I, Y, R>) -> T,
    {
        self.scope_on(self.pool_stack()?, body, run)
    }

    /// Makes a coroutine whose body may borrow, on a stack that the caller provides, hands it to `run`, and ends it when
    /// `run` returns or unwinds: see [`Coroutine::scope`](Coroutine#method.scope).
    pub fn scope_on<I, Y, R, F, S, G, T>(self, stack: S, body: F, run: G) -> Result<T, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
        S: Stack,
        G: for<'s> FnOnce(Scoped<'s, I, Y, R, S>) -> T,
    {
        // SAFETY: every lifetime in the types of this function's caller is longer than this call, and the call is not left
        // before the owner is dropped, which ends the coroutine. If this frame itself is leaked, because it is on a
        // stack that is never unwound, then so is all that outlives it.
        let mut owner = Owner(unsafe { self.make_on(stack, body)? });
        let value = run(Scoped {
            coroutine: &mut owner.0,
        });
        drop(owner);
        Ok(value)
    }
}

/// The coroutine of a scope. When it is dropped the coroutine has ended, or the process does.
struct Owner<I, Y, R, S: Stack>(Coroutine<I, Y, R, S>);

impl<I, Y, R, S: Stack> Drop for Owner<I, Y, R, S> {
    fn drop(&mut self) {
        let end = Ended(&mut self.0);
        let ended = (0..ATTEMPTS).find_map(|_| end.0.end().ok());
        drop(end);
        if let Some(Some(payload)) = ended
            && !unwind::is_unwinding()
        {
            unwind::carry_on(payload);
        }
    }
}

/// Aborts when it is dropped before the coroutine has ended. It is a value with a destructor because an attempt can
/// unwind: it drops a `Y`, whose destructor may panic.
struct Ended<'c, I, Y, R, S: Stack>(&'c mut Coroutine<I, Y, R, S>);

impl<I, Y, R, S: Stack> Drop for Ended<'_, I, Y, R, S> {
    fn drop(&mut self) {
        if !self.0.is_finished() {
            cannot_end(self.0.id());
        }
    }
}

/// Ends the process. An `extern "C"` function, so that a panic in it could not leave it.
#[cold]
#[cfg(feature = "std")]
extern "C" fn cannot_end(id: u64) -> ! {
    use std::io::Write;

    let why = if unwind::CAN_UNWIND {
        std::format!("it was cancelled up to {ATTEMPTS} times and suspended itself again each time")
    } else {
        std::string::String::from(
            "it is suspended, and this program was built without unwinding (panic = \"abort\")",
        )
    };
    let line = std::format!(
        "lancet-switch: coroutine {id} cannot be ended with its scope: {why}. The process is aborted, because what the coroutine borrows ends with the scope\n"
    );
    // Where nothing can be written there is nobody to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}

/// Ends the process. Without the standard library there is nowhere to say why.
#[cold]
#[cfg(not(feature = "std"))]
extern "C" fn cannot_end(_id: u64) -> ! {
    crate::arch::trap()
}
