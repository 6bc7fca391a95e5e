//! `lancet profile`: in which functions do threads run, and who calls them?
//!
//! [`args`] has the flags; [`run`](mod@run) looks again and again ([`crate::sampling`]) and writes what was seen.

mod args;
mod live;
mod run;

pub use args::ProfileArgs;
pub use run::run;
