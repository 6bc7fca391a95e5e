//! A ring's tables of lines and of counts, emptied when a session begins.

use core::sync::atomic::Ordering;
use wire::calls::{COUNTS, Count, PLACES, Place, Ring};

/// Empties a ring's table of lines.
pub fn forget_lines(ring: &Ring) {
    // A number is taken before anything is written.
    if ring.last_place.load(Ordering::Relaxed) == 0 {
        return;
    }
    for at in 0..PLACES {
        // SAFETY: within the ring's table. Pages that nothing was noted in stay untouched.
        unsafe {
            let place = (ring.places as *mut Place).add(at);
            if (*place).code != 0 {
                place.write(Place::default());
            }
        }
    }
    ring.last_place.store(0, Ordering::Relaxed);
}

/// Empties a ring's table of counts.
pub fn forget_counts(ring: &Ring) {
    let table = ring.counts.load(Ordering::Relaxed);
    for at in 0..if table == 0 { 0 } else { COUNTS } {
        // SAFETY: within the table, which is this thread's and never unmapped. Pages that nothing was counted in stay
        // untouched.
        unsafe {
            let count = (table as *mut Count).add(at);
            if (*count).key != 0 {
                core::ptr::write_bytes(count, 0, 1);
            }
        }
    }
    ring.uncounted.store(0, Ordering::Relaxed);
}
