//! The tests of the crate as its users see it: one executable, so that it is linked once.

mod answers;
mod chains;
mod diff;
mod dominators;
mod file;
mod large;
mod names;
