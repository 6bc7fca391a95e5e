//! Emptying a ring's tables.

use super::*;
use crate::calls::counts::{Became, add, row};
use crate::calls::ring::fixture::Own;
use wire::calls::COUNTS;

fn count(own: &Own, row: u64) -> Count {
    let table = ours::<Count>(own.ring().counts.load(Ordering::Relaxed));
    // SAFETY: the row is in the ring's table.
    unsafe { *table.add(row as usize) }
}

/// Rows that were taken are empty afterwards and unmarked, and can be taken again.
#[test]
fn counts_are_forgotten() {
    let own = Own::new(1 << 12);
    for hook in 0..300 {
        add(own.ring(), hook, 1, Became::of(5));
    }
    forget_counts(own.ring());
    assert!(
        own.ring()
            .rows
            .iter()
            .all(|marks| marks.load(Ordering::Relaxed) == 0)
    );
    for number in 0..COUNTS as u64 {
        let count = count(&own, number);
        assert_eq!(
            (count.key, count.begun, count.total, count.longest),
            (0, 0, 0, 0)
        );
        assert!(count.buckets.iter().all(|bucket| *bucket == 0));
    }
    let again = row(own.ring(), 7, 1).expect("room");
    assert_eq!(count(&own, again).begun, 0);
}

/// Counts that were lost are forgotten, too.
#[test]
fn losses_are_forgotten() {
    let own = Own::new(1 << 12);
    own.ring().uncounted.store(9, Ordering::Relaxed);
    forget_counts(own.ring());
    assert_eq!(own.ring().uncounted.load(Ordering::Relaxed), 0);
}

/// Marks of a ring without a table are taken away rather than followed.
#[test]
fn marks_without_a_table_are_taken_away() {
    let own = Own::new(1 << 12);
    own.ring().rows[3].store(u64::MAX, Ordering::Relaxed);
    forget_counts(own.ring());
    assert_eq!(own.ring().rows[3].load(Ordering::Relaxed), 0);
}

fn place(own: &Own, at: usize) -> *mut Place {
    ours::<Place>(own.ring().places).wrapping_add(at)
}

/// Lines that were numbered are forgotten, the first and the last entry of the table, too.
#[test]
fn lines_are_forgotten() {
    let own = Own::new(1 << 12);
    for at in [0, 77, PLACES - 1] {
        // SAFETY: the entry is in the ring's table.
        unsafe { (*place(&own, at)).code = 0x7000 };
    }
    own.ring().last_place.store(3, Ordering::Relaxed);
    forget_lines(own.ring());
    for at in 0..PLACES {
        // SAFETY: the entry is in the ring's table.
        assert_eq!(unsafe { *place(&own, at) }, Place::default());
    }
    assert_eq!(own.ring().last_place.load(Ordering::Relaxed), 0);
}

/// A table in which no line was numbered is not looked at, since its pages would take memory.
#[test]
fn an_empty_table_is_not_looked_at() {
    let own = Own::new(1 << 12);
    // SAFETY: the entry is in the ring's table.
    unsafe { (*place(&own, 5)).code = 0x7000 };
    forget_lines(own.ring());
    // SAFETY: as above.
    assert_eq!(unsafe { (*place(&own, 5)).code }, 0x7000);
}
