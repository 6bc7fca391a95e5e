//! The readers against real processes: what they find in their memory must be what the language itself
//! says of the same addresses.
//!
//! Rubies come from whole roots, `~/.cache/lancet/roots/ruby-VERSION` (or `$LANCET_ROOTS`), entered by
//! chroot; Perls and PHPs likewise, and this machine's own too. A version without a root is a printed skip.

#[path = "../image/answers.rs"]
mod answers;
mod classes;
mod fibers;
mod frames;
mod functions;
mod guest;
mod heap;
mod image;
#[allow(dead_code, reason = "images are changed by `tests/image`")]
#[path = "../image/image.rs"]
mod image_file;
mod lines;
mod newest_layout;
mod perl;
mod php;
mod process;
mod python;
mod ractors;
mod show;
