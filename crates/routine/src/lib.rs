//! What runs in the guest between a stub and the function it hooks.
//!
//! | file | what |
//! |---|---|
//! | `frame` | what the stub, the routine and the agent's `enter` and `leave` agree on |
//! | `code` | the routine itself, as a macro that puts it into the image that calls it |
//! | `blocks` | where it finds what is counted of blocks |
//! | `quick` | what is asked before `enter` and `leave`, without vector registers |
//! | `room` | on which stack `enter`, `leave` and `probe` run |
//! | `unwind` | how exceptions and backtraces pass through it |
//! | `escape` | how a panic of `enter`, `leave` or `probe` gets back to it |
//!
//! A crate of its own beside `trampoline`, because the agent embeds it: Cargo builds a crate once with the union of the
//! features asked for in a workspace, and would link the decoder's `std` into the agent.

#![no_std]

pub mod blocks;
mod code;
pub mod escape;
pub mod frame;
pub mod quick;
pub mod room;
pub mod unwind;

pub use frame::{Descriptor, Frame, ProbeFrame, Results, Vectors};
pub use room::{Room, Rooms};
