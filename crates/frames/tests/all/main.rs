//! The tests of the crate as its users see it: one executable, so that it is linked once.

mod chains;
mod corpus;
mod damaged_cores;
mod debian;
mod difference;
mod hostile;
mod packed;
