//! The agent as a program: the library beside it, without libc, start files or a `main`. The linker keeps what the library
//! enters the guest by (`enter`, `open_calls`, …) because `build.rs` names it.

#![no_std]
#![no_main]

// As in the library: a program that unwinds is only checked.
#[cfg(panic = "unwind")]
extern crate std;

// Nothing of it is called by name here.
extern crate lancet_agent as _;
