//! What a stack must be for a coroutine to run on it, and the simplest one.

use core::ops::Range;

use crate::error::Error;

/// Memory a coroutine can run on. Implement it to plug in an allocator of your own.
///
/// # Safety
///
/// The range must be readable and writable, used by nobody else, and stay at its address from the
/// moment the stack is handed over until it is dropped. A guard below it is the implementer's
/// business: without one an overflow corrupts what lies there.
pub unsafe trait Stack {
    /// Returns the range from the lowest usable address to one past the highest.
    fn range(&self) -> Range<usize>;

    /// Called instead of `drop` when frames that could not be unwound are left on the stack: it
    /// must never be used again. Forgetting it, the default, is always right.
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
    /// The memory must meet the contract of [`Stack`] until the coroutine on it is dropped, and for good if that
    /// coroutine is forgotten or abandoned.
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
