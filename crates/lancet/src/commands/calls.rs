//! `lancet calls`: which line calls this C function, with what, and how long does it take?
//!
//! The work is done by crate `calls`, the formats are those of `report::calls`; here is the command line (`args`), and
//! the loop that reads until it is over (`run`).

mod args;
mod losses;
mod run;

pub use args::CallsArgs;
pub use run::run;
