//! Whether the command lives, by its heartbeat. Used by `living`, `languages::php::births::counting`,
//! `languages::python::births::counting` and others.

use crate::memory::sys;
use core::sync::atomic::Ordering;
use wire::ControlPage;

/// Births between two checks of the command's heartbeat.
pub const LOOK_EVERY: u32 = 1024;

/// What is known of the command's life.
pub struct Presence {
    /// Births until the command's heartbeat is checked again.
    pub until_look: u32,
    /// The last heartbeat that was seen, and the time-stamp counter then; 0 = none was.
    heartbeat: u64,
    heartbeat_seen: u64,
    /// Whether the heartbeat has been found late once since it last changed.
    doubted: bool,
}

impl Presence {
    /// No heartbeat has been seen.
    pub const fn new() -> Self {
        Presence {
            until_look: LOOK_EVERY,
            heartbeat: 0,
            heartbeat_seen: 0,
            doubted: false,
        }
    }

    /// Notes the heartbeat of a command that is there.
    pub fn begin(&mut self, control_page: &ControlPage) {
        self.heartbeat_seen = 0;
        self.look(control_page, u64::MAX);
    }

    /// Notes the command's heartbeat, and returns whether it has been still for more than `ticks` of the time-stamp counter. After a
    /// suspend of the machine it looks still at first, so the command gets a quarter of the time more after that.
    pub fn look(&mut self, control_page: &ControlPage, ticks: u64) -> bool {
        self.until_look = LOOK_EVERY;
        let beat = control_page.heartbeat.load(Ordering::Relaxed);
        let now = sys::ticks();
        if beat != self.heartbeat || self.heartbeat_seen == 0 {
            (self.heartbeat, self.heartbeat_seen) = (beat, now);
            self.doubted = false;
        }
        let late = now.wrapping_sub(self.heartbeat_seen) > ticks;
        if late && !self.doubted {
            self.doubted = true;
            self.heartbeat_seen = now.wrapping_sub(ticks / 4 * 3);
            return false;
        }
        late
    }
}
