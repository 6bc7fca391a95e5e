//! A ring's tables of lines and of counts, emptied when a session begins.

use core::sync::atomic::{AtomicU64, Ordering};
use wire::calls::{Count, PLACES, Place, Ring};

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

/// Empties a ring's table of counts: the rows that are marked as taken.
pub fn forget_counts(ring: &Ring) {
    let table = ring.counts.load(Ordering::Relaxed) as *mut Count;
    for (word, marks) in ring.rows.iter().enumerate() {
        let mut rows = marks.load(Ordering::Relaxed);
        while rows != 0 {
            let (row, mark) = (rows.trailing_zeros() as usize, rows & rows.wrapping_neg());
            rows &= rows - 1;
            if table.is_null() {
                marks.fetch_and(!mark, Ordering::Relaxed);
                continue;
            }
            // SAFETY: within the table, which is this thread's and never unmapped.
            let count = unsafe { table.add(word * 64 + row) };
            // SAFETY: as above. The mark is taken away behind it: a handler that comes in between and leaves by a jump leaves the rest of
            // the marked rows to whoever is here next.
            unsafe { core::ptr::write_bytes(count, 0, 1) };
            marks.fetch_and(!mark, Ordering::Relaxed);
            // SAFETY: the first word of that row, aligned.
            let key = unsafe { AtomicU64::from_ptr(&raw mut (*count).key) };
            if key.load(Ordering::Relaxed) != 0 {
                // Such a handler has taken it.
                marks.fetch_or(mark, Ordering::Relaxed);
            }
        }
    }
    ring.uncounted.store(0, Ordering::Relaxed);
}
