//! Which bytes a hook copies from a call's arguments.
//!
//! A hook in the guest knows nothing of C types. The command, which does, compiles a function's prototype to
//! two small programs of [`Op`]s, one for the call and one for its return, and writes them into the guest as
//! words. The hook runs them over the registers of the call ([`run()`]) and hands on pairs of address and
//! bytes; the command lays these over the guest's memory as it was at that instant and prints the arguments.
//!
//! ```text
//!   prototype ──compile──► [Op] ──to words──► guest: run(ops, registers, read, output)
//!                                                      │ (address, bytes) …
//!   text ◄──show── prototype + registers + captures ◄───┘
//! ```
//!
//! The interpreter allocates nothing, follows no pointer itself (it asks the caller's `read`, which proves
//! pages readable first), and stops at the [`CopyLimits`] whatever the program or the guest's memory say. A
//! program of hostile words runs as harmlessly as a good one: an unknown operation ends it.
//!
//! A crate of its own and not a feature of `prototypes`, because the agent embeds it: Cargo builds a crate
//! once with the union of the features asked for in a workspace, and would link the parser's `std` into the
//! agent.

#![no_std]
#![forbid(unsafe_code)]

pub mod condition;
pub mod describe;
mod format;
mod op;
pub mod outcome;
mod range;
mod run;
pub mod value;

pub use describe::What;
pub use format::{Conversion, ConversionKind, Conversions};
pub use op::{Op, Source, Width};
pub use range::Range;
pub use run::{CALLERS, CopyLimits, Ended, GuestAccess, Registers, Returned, run};
