//! Finds children that no notice has reported: made by `clone` or by a bare system call, where no hook waits. They have a copy of their
//! parent's hooks, which fall through. `family` adopts them.

use super::guest::Guest;
use process::guest::children;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Time between two looks. A child that exists at two of them cannot be one of a fork that its parent is about to report.
const LOOK: Duration = Duration::from_millis(500);

/// The children that no hook has reported and that were found by searching, for all guests of one run. Each is returned only once, so that
/// a child that cannot be opened is not tried again at every look.
#[derive(Default)]
pub struct Unadopted {
    looked: Option<Instant>,
    /// Children that existed at the last look and have not been returned.
    seen: HashSet<i32>,
    /// Children that were returned.
    found: HashSet<i32>,
}

impl Unadopted {
    /// Returns the children that existed at the last look too, each once, as pairs of parent and child.
    pub fn look(&mut self, guests: &[&Guest]) -> Vec<(i32, i32)> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Vec::new();
        }
        self.looked = Some(Instant::now());
        let ours: HashSet<i32> = guests.iter().map(|guest| guest.pid()).collect();
        let (mut unadopted, mut seen) = (Vec::new(), HashSet::new());
        for guest in guests {
            for child in children(guest.pid()) {
                let known = ours.contains(&child) || self.found.contains(&child);
                if known || guest.has_met(child) || !guest.is_copied_in(child) {
                    continue;
                }
                if self.seen.contains(&child) {
                    unadopted.push((guest.pid(), child));
                } else {
                    seen.insert(child);
                }
            }
        }
        self.seen = seen;
        self.found.extend(unadopted.iter().map(|(_, child)| *child));
        unadopted
    }
}
