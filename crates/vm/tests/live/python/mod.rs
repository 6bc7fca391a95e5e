//! The reader against real Python processes: what it finds in their memory must be what Python itself
//! says of the same addresses.
//!
//! Pythons come from whole roots, `~/.cache/lancet/roots/python-VERSION` (or `$LANCET_ROOTS`), entered by
//! chroot. A version without a root is a printed skip. Versions that no Debian suite has can be added by
//! hand, as paths of programs in `$LANCET_PYTHONS`, with colons between them; a name that ends with `t` is that of a free-threaded build.

mod debug_offsets;
mod frames;
mod functions;
mod greenlets;
mod guest;
mod image;
mod lines;
mod show;
mod threads;
