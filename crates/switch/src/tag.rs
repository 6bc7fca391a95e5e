//! Tags that are passed with a word, into a coroutine and out of it: they say what the word is.

/// In: an input. Out: a yielded value.
pub(crate) const VALUE: usize = 0;
/// In: the coroutine is to unwind itself.
pub(crate) const CANCEL: usize = 1;
/// Out: the body returned; the word is its result.
pub(crate) const RETURNED: usize = 2;
/// Out: the body was cancelled; no value.
pub(crate) const CANCELLED: usize = 3;
/// Out: the body panicked; the word is the payload.
pub(crate) const PANICKED: usize = 4;
/// Out: the stack is being unwound already, so that the cancellation is refused; no value.
pub(crate) const REFUSED: usize = 5;
