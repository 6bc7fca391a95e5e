//! Waits of a guest thread for the command. Every wait ends: when the answer comes, when the time is over, or when
//! the command is gone or leaves. Used by `children`, `loader` and `notices`.

use super::session::calls;
use crate::memory::sys;

/// The shortest pause in nanoseconds between two checks; later ones are up to 32 times as long.
const PAUSE: u64 = 50_000;
/// Number of checks between two checks of the command's process, because a child whose control page was wiped cannot
/// see the heartbeat.
const LOOKS: u32 = 16;

/// The longest wait in nanoseconds of a thread that must not read the time-stamp counter.
const MOST_WITHOUT_COUNTER: u64 = 2_000_000_000;

/// A wait that always ends.
pub struct Wait {
    clock: fn() -> u64,
    began: u64,
    most: u64,
    looks: u32,
}

impl Wait {
    /// A wait of at most `most` cycles of the time-stamp counter, from now on.
    pub fn new(most: u64) -> Self {
        Wait::by(sys::ticks, most)
    }

    /// A wait of a thread that must not read that counter.
    pub fn without_counter() -> Self {
        Wait::by(sys::now, MOST_WITHOUT_COUNTER)
    }

    fn by(clock: fn() -> u64, most: u64) -> Self {
        Wait {
            clock,
            began: clock(),
            most,
            looks: 0,
        }
    }

    /// Waits for one pause. Returns false if it did not, because the time is over or the command is gone.
    pub fn goes_on(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let owner = calls().owner;
        if (self.clock)().wrapping_sub(self.began) > self.most
            || owner != 0 && self.looks.is_multiple_of(LOOKS) && !sys::exists(owner)
        {
            return false;
        }
        // An answer that does not come soon may take long, so pauses get longer.
        sys::pause(PAUSE << (self.looks / LOOKS).min(5));
        true
    }
}

#[cfg(test)]
mod tests;
