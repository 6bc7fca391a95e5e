//! How much memory the agent's books of births may take: a part of what the guest's limits, its control groups and the machine leave. A guest
//! that meets one of them because of lancet would be ended, or get errors, for something that it has not done. Used by
//! `epochs`, `attached`, `program` and others.
//!
//! What is left changes while the guest is watched, so the part is given anew every now and then: a quarter of what would be left without the
//! books, divided among all guests.

use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use process::{control_group, limits};
use std::mem::offset_of;
use std::time::{Duration, Instant};
use wire::ControlPage;

/// What the books of a guest take at most whose control group is not to be seen from here (another container's): its limit is not known.
const HIDDEN: u64 = 64 << 20;

/// The books of all guests together may take one in so many of the bytes that are left.
const SHARE: u64 = 4;
/// Time from one grant to the next.
const RENEWED: Duration = Duration::from_secs(2);

/// When the guests of one command were last given their part.
#[derive(Debug)]
pub(crate) struct Grants {
    last: Instant,
}

impl Grants {
    /// They are given it as they are opened ([`begin`]).
    pub(crate) fn new() -> Self {
        Grants {
            last: Instant::now(),
        }
    }

    /// Gives each guest its part anew if that is due.
    pub(crate) fn renew<'a>(
        &mut self,
        guests: impl Iterator<Item = (&'a GuestMemory, &'a Resident)>,
    ) {
        if self.last.elapsed() < RENEWED {
            return;
        }
        self.last = Instant::now();
        let guests: Vec<_> = guests.collect();
        for (memory, resident) in &guests {
            // A process that is gone is noticed at the next look.
            let _ = grant(memory, resident, guests.len() as u64);
        }
    }
}

/// Gives a guest its part that is being opened.
pub(super) fn begin(memory: &GuestMemory, resident: &Resident) -> Result<()> {
    grant(memory, resident, 1)
}

fn grant(memory: &GuestMemory, resident: &Resident, guests: u64) -> Result<()> {
    let pid = memory.pid();
    let room = control_group::room_of(pid);
    let left = limits::left_to_map_of(pid).unwrap_or(u64::MAX);
    let left = control_group::memory_within(pid, &room).min(left);
    let taken = resident.control_page_u64(memory, offset_of!(ControlPage, taken))?;
    let most = granted(taken, left, guests);
    let most = known(most, room.is_hidden);
    resident.write_control_page(memory, offset_of!(ControlPage, most), most)
}

/// Never 0, which would be no bound at all.
fn granted(taken: u64, left: u64, guests: u64) -> u64 {
    (taken.saturating_add(left) / SHARE / guests.max(1)).max(1)
}

/// The bound, where a limit may hold that is not known.
fn known(most: u64, is_hidden: bool) -> u64 {
    if is_hidden { most.min(HIDDEN) } else { most }
}

#[cfg(test)]
mod tests {
    use super::{HIDDEN, SHARE, granted, known};

    #[test]
    fn where_the_limit_is_not_known_the_books_are_small() {
        assert_eq!(known(u64::MAX / SHARE, true), HIDDEN);
        assert_eq!(known(1000, true), 1000);
        assert_eq!(known(u64::MAX / SHARE, false), u64::MAX / SHARE);
    }

    #[test]
    fn the_books_take_a_part_of_what_is_left() {
        assert_eq!(granted(0, 4000, 1), 1000);
        assert_eq!(granted(1000, 3000, 1), 1000, "the same when they have it");
        assert_eq!(granted(1000, 200, 1), 300, "less when the guest grows");
        assert_eq!(granted(0, 4000, 5), 200);
        assert_eq!(granted(0, 0, 0), 1);
        assert_eq!(granted(u64::MAX, u64::MAX, 1), u64::MAX / SHARE);
    }
}
