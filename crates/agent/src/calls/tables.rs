//! Empties a ring's tables of lines and of counts when a session begins. Used by `ring`.

use super::counts;
use crate::memory::follow::ours;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::calls::{Count, PLACES, Place, Ring};

/// Empties a ring's table of lines.
pub fn forget_lines(ring: &Ring) {
    // A number is assigned before an entry is written, so with none assigned the table is empty.
    if ring.last_place.load(Ordering::Relaxed) == 0 {
        return;
    }
    for at in 0..PLACES {
        // SAFETY: `at` is less than [`PLACES`], the entries of the ring's table, which is never unmapped. Pages without an entry are only
        // read, so they take no memory.
        unsafe {
            let place = ours::<Place>(ring.places).add(at);
            if (*place).code != 0 {
                place.write(Place::default());
            }
        }
    }
    ring.last_place.store(0, Ordering::Relaxed);
}

/// Empties a ring's tables of counts: of the first one only the rows that are marked as taken.
pub fn forget_counts(ring: &Ring) {
    let table = ours::<Count>(ring.counts.load(Ordering::Relaxed));
    for (word, marks) in ring.rows.iter().enumerate() {
        // SAFETY: a mark stands for a row of the table, which is this thread's and never unmapped.
        unsafe { forget_marked(table, word * 64, marks) };
    }
    counts::forget(ring);
    ring.uncounted.store(0, Ordering::Relaxed);
}

/// Empties the rows of a table that are marked in this word, of those from `first` on, and takes the marks away. Without a table, only that.
///
/// # Safety
/// The table has 64 rows from `first` on, and only this thread and its signal handlers write them.
pub(super) unsafe fn forget_marked(table: *mut Count, first: usize, marks: &AtomicU64) {
    let mut rows = marks.load(Ordering::Relaxed);
    while rows != 0 {
        let (row, mark) = (rows.trailing_zeros() as usize, rows & rows.wrapping_neg());
        rows &= rows - 1;
        if table.is_null() {
            marks.fetch_and(!mark, Ordering::Relaxed);
            continue;
        }
        // SAFETY: the caller's promise: the row is one of the 64.
        let count = unsafe { table.add(first + row) };
        // SAFETY: `count` is a row of this thread's table, which only it and its handlers write. The mark is cleared after the row:
        // if a handler runs in between and leaves by a jump, the rest of the marked rows is emptied the next time.
        unsafe { core::ptr::write_bytes(count, 0, 1) };
        marks.fetch_and(!mark, Ordering::Relaxed);
        // SAFETY: the key is the first word of that row, aligned, and is used as an atomic.
        let key = unsafe { AtomicU64::from_ptr(&raw mut (*count).key) };
        if key.load(Ordering::Relaxed) != 0 {
            // A handler has taken the row meanwhile.
            marks.fetch_or(mark, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
