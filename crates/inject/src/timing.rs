//! Times that a command reports of its stops. Used by most crates above.

use std::time::Duration;

/// How long the guest has stood still for us, and how long it took to answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// How long the guest stood still, all stops together.
    pub stopped: Duration,
    /// The longest of them.
    pub longest_stop: Duration,
    /// Number of these stops.
    pub stops: u32,
    /// How long the last request took, from its making to the answer.
    pub answered: Duration,
}
