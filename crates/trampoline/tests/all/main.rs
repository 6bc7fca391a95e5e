//! The tests of the crate as its users see it: one executable, so that it is linked once.
//!
//! Apart from it are `live` and `small`: each is a program with a routine of its own in its text, and in `small` the routine believes that no
//! stack has room.

mod coverage;
mod hostile;
#[path = "../modules/mod.rs"]
mod modules;
mod rules;
