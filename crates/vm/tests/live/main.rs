//! The reader against real Ruby processes: what it finds in their memory must be what Ruby itself
//! says of the same addresses.
//!
//! Rubies come from whole roots, `~/.cache/lancet/roots/ruby-VERSION` (or `$LANCET_ROOTS`), entered by
//! chroot. A version without a root is a printed skip.

mod classes;
mod frames;
mod guest;
mod heap;
mod lines;
mod ractors;
