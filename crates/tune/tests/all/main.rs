//! The tests of the crate as its users see it: one executable, so that it is linked once.

mod advice;
mod hostile;
mod odd;
mod placement;
