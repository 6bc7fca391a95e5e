//! Waits of a guest thread for the command. Every one ends: when it was heard, when it has lasted for too long, when
//! the command is gone or leaves.

use super::session::calls;
use crate::memory::sys;

/// Between two looks, in nanoseconds.
const PAUSE: u64 = 50_000;
/// Looks between two at the command's process: a child, whose control page was wiped, cannot hear its heartbeat.
const LOOKS: u32 = 16;

/// A wait, which ends.
pub struct Wait {
    began: u64,
    most: u64,
    looks: u32,
}

impl Wait {
    /// Of at most so many cycles.
    pub fn new(most: u64) -> Self {
        Wait {
            began: sys::ticks(),
            most,
            looks: 0,
        }
    }

    /// Waits for a moment; whether it is worth waiting on.
    pub fn goes_on(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let owner = calls().owner;
        if sys::ticks().wrapping_sub(self.began) > self.most
            || owner != 0 && self.looks.is_multiple_of(LOOKS) && !sys::is_process(owner)
        {
            return false;
        }
        // What is not soon may take long.
        sys::pause(PAUSE << (self.looks / LOOKS).min(5));
        true
    }
}
