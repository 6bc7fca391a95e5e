//! What a stack must be for a coroutine to run on it, and the simplest one.

use core::ops::Range;

use crate::error::Error;

/// Memory a coroutine can run on. Implement it to plug in an allocator of your own.
///
/// # Safety
///
/// The range must be the same at each call, be readable and writable, used by nobody else, and stay at its address,
/// wherever the value itself is moved, from the moment the stack is handed over until the value is dropped.
///
/// **Dropped** means that `drop` was called. A coroutine that is forgotten while it is suspended forgets its stack, and
/// one that cannot be ended abandons it. Its frames stay, other threads may read and write what is in them, and nobody
/// says when they are done: so the memory of a stack that is not dropped stays for good, or as long as the lifetimes in the
/// implementing type last (only a [scope](crate::Builder::scope_on) takes a type with a lifetime that ends). An allocator
/// that frees many stacks at once must therefore count one that never comes back as in use: [`PoolStack`] holds its pool.
///
/// A guard below the range is the implementer's business: without one an overflow corrupts what lies there.
///
/// [`PoolStack`]: crate::DefaultStack
pub unsafe trait Stack {
    /// Returns the range from the lowest usable address to one past the highest.
    fn range(&self) -> Range<usize>;

    /// Called instead of `drop` when frames that could not be unwound are left on the stack: its memory must neither be
    /// used nor freed after that. Forgetting the stack, the default, is always right.
    fn abandon(self)
    where
        Self: Sized,
    {
        core::mem::forget(self);
    }
}

/// A stack in memory that the caller provides, without a guard of its own.
#[derive(Debug)]
pub struct RawStack {
    limit: usize,
    top: usize,
}

impl RawStack {
    /// Makes a stack of `len` bytes from `limit` up.
    ///
    /// # Safety
    ///
    /// The memory must meet the contract of [`Stack`] until this value is dropped, and for good if it never is: a coroutine
    /// that is forgotten or abandoned does not drop it. Memory that ends before the program does is thus for those who
    /// can say that the coroutine will have ended before: one that returns, or one in a
    /// [scope](crate::Builder::scope_on), whose call does not end before it.
    pub unsafe fn new(limit: *mut u8, len: usize) -> Result<Self, Error> {
        let limit = limit.expose_provenance();
        let top = limit
            .checked_add(len)
            .ok_or(Error::TooLarge { asked: len })?;
        Ok(RawStack { limit, top })
    }
}

// SAFETY: the contract is the caller's of `new`.
unsafe impl Stack for RawStack {
    fn range(&self) -> Range<usize> {
        self.limit..self.top
    }
}
