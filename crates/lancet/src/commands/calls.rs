//! `lancet calls`: which line calls this C function, with what, and how long does it take?
//!
//! The work is done by crate `calls`, the formats are those of `report::calls`; here is the command line (`args`). What
//! it shares with `lancet syscalls` is in [`watching`](crate::watching).

mod args;
mod run;

pub use args::CallsArgs;
pub use run::run;
