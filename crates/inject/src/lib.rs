//! Brings the agent into a guest and uses it there: remote calls on one of the guest's threads, the agent's image,
//! and the lifecycle of the processes that a command watches.

pub mod agents;
pub mod allowed;
pub mod doors;
mod gadgets;
pub mod heartbeat;
pub mod image;
pub mod lifecycle;
pub mod records;
pub mod remote_call;
pub mod resident;
pub mod residents;
pub mod seccomp;
mod timing;
pub mod tracee;

pub use image::{Embedded, Image};
pub use timing::Timing;
