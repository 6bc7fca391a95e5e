//! The readers against real processes: what they find in their memory must be what the language itself
//! says of the same addresses. Here Ruby; `python` has its own.
//!
//! Rubies come from whole roots, `~/.cache/lancet/roots/ruby-VERSION` (or `$LANCET_ROOTS`), entered by
//! chroot. A version without a root is a printed skip.

mod classes;
mod frames;
mod functions;
mod guest;
mod heap;
mod lines;
mod python;
mod ractors;
mod show;
