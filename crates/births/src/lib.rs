//! The engine of `lancet mem`: births counted in a running process by the agent, the census of the living, and what can be
//! read from it.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod attached;
pub mod census;
mod children;
pub mod earlier;
pub mod intervals;
pub mod ledger;
pub mod native;
mod numbers;
pub mod objects;
pub mod postmortem;
pub mod program;
pub mod session;
mod steady;
pub mod tracked;
pub mod watching;

pub use session::{COUNTING, Options, Session};
