//! `lancet demo`: a small server with three faults, started and opened by lancet itself.
//!
//! The servers are those of crate `languages` ([`languages::demo`]), one a language; a machine needs one interpreter and nothing else. What is
//! shown is what the commands answer: each is run as a process of its own, as a user would.

mod args;
mod run;
mod server;

pub use args::DemoArgs;
pub use run::run;
