//! The tables of counts, against a map from hook and line to figures.

use super::*;
use crate::calls::ring::fixture::Own;
use capture::outcome::Failure;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::vec::Vec;
use wire::calls::{bucket, lines};

fn own() -> Own {
    Own::new(1 << 12)
}

/// A row of the table, copied.
fn count(own: &Own, number: u64) -> Count {
    let at = at(own.ring(), number).expect("a table");
    // SAFETY: the row is in the ring's table.
    unsafe { *at }
}

/// All rows that are taken, by their keys.
fn all(own: &Own) -> BTreeMap<u64, Count> {
    if own.ring().counts.load(Ordering::Relaxed) == 0 {
        return BTreeMap::new();
    }
    let rows = (0..COUNTS as u64).map(|number| count(own, number));
    rows.filter(|row| row.key != 0)
        .map(|row| (row.key, row))
        .collect()
}

/// A thread that has counted nothing has no table, and a row number alone leads nowhere.
#[test]
fn nothing_is_mapped_before_it_is_needed() {
    let own = own();
    assert!(at(own.ring(), 5).is_none());
    begun(own.ring(), 5);
    returned(own.ring(), 5, Became::of(3));
    moved(own.ring(), 5);
    assert!(!add_at_once(own.ring(), 1, 0, Became::of(1)));
    assert_eq!(own.ring().counts.load(Ordering::Relaxed), 0);
}

/// A call counts as begun and as returned, with its cycles.
#[test]
fn a_call_is_counted() {
    let own = own();
    add(own.ring(), 3, 7, Became::of(100));
    let rows = all(&own);
    let row = rows[&row_key(3, 7)];
    assert_eq!((row.begun, row.returned, row.total), (1, 1, 100));
    assert_eq!((row.longest, row.shortest, row.moved), (100, 100, 0));
    assert_eq!(rows.len(), 1);
}

/// A call that has only begun has no time.
#[test]
fn an_open_call_has_no_time() {
    let own = own();
    let row = row(own.ring(), 3, 7).expect("room");
    begun(own.ring(), row);
    let count = count(&own, row);
    assert_eq!(
        (count.begun, count.returned, count.total, count.shortest),
        (1, 0, 0, 0)
    );
}

/// The same hook and line lead to the same row, and another of either to another.
#[test]
fn hook_and_line_make_a_row() {
    let own = own();
    let row = |hook, line| row(own.ring(), hook, line).expect("room");
    let first = row(0, 0);
    assert_eq!(row(0, 0), first);
    let others: HashSet<u64> = [first, row(1, 0), row(0, 1), row(1, 1)].into();
    assert_eq!(others.len(), 4);
}

/// The longest and the shortest call are kept, in whatever order they come.
#[test]
fn extremes_are_kept() {
    let own = own();
    for ticks in [50, 10, 90, 30] {
        add(own.ring(), 1, 0, Became::of(ticks));
    }
    let row = all(&own)[&row_key(1, 0)];
    assert_eq!((row.longest, row.shortest, row.total), (90, 10, 180));
}

/// A call that took no cycle at all is not mistaken for none: a later one replaces it as the shortest.
#[test]
fn no_cycle_is_not_the_shortest() {
    let own = own();
    add(own.ring(), 1, 0, Became::of(0));
    add(own.ring(), 1, 0, Became::of(5));
    let row = all(&own)[&row_key(1, 0)];
    assert_eq!((row.shortest, row.returned), (5, 2));
}

/// Each call is in the bucket of its duration, the longest in the last.
#[test]
fn durations_are_in_their_buckets() {
    let own = own();
    let durations = [0, 3, 4, 1000, 1 << 40, u64::MAX];
    for ticks in durations {
        add(own.ring(), 1, 0, Became::of(ticks));
    }
    let row = all(&own)[&row_key(1, 0)];
    for ticks in durations {
        assert_eq!(row.buckets[bucket(ticks)], 1, "{ticks}");
    }
    assert_eq!(row.buckets.iter().sum::<u32>(), durations.len() as u32);
}

/// Errors and bytes are counted where the call says so, and nowhere else.
#[test]
fn errors_and_bytes_are_counted() {
    let own = own();
    let became = |failed, bytes| Became {
        ticks: 1,
        failed,
        bytes,
    };
    for (failed, bytes) in [(true, 0), (false, 100), (false, 28), (true, 0)] {
        add(own.ring(), 1, 0, became(failed, bytes));
    }
    let row = all(&own)[&row_key(1, 0)];
    assert_eq!((row.errors, row.bytes, row.returned), (2, 128, 4));
}

/// A call that returns on another thread is noted where it began.
#[test]
fn a_call_may_return_elsewhere() {
    let own = own();
    let row = row(own.ring(), 1, 0).expect("room");
    begun(own.ring(), row);
    moved(own.ring(), row);
    let count = count(&own, row);
    assert_eq!((count.begun, count.returned, count.moved), (1, 0, 1));
}

/// A row is found at once only after it was made.
#[test]
fn a_row_is_found_at_once_when_it_is_there() {
    let own = own();
    add(own.ring(), 1, 0, Became::of(1));
    assert!(add_at_once(own.ring(), 1, 0, Became::of(2)));
    assert!(!add_at_once(own.ring(), 2, 0, Became::of(2)));
    let rows = all(&own);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[&row_key(1, 0)].total, 3);
}

/// Without a line of the application, the library's lines tell rows apart; with one they do not.
#[test]
fn library_lines_count_without_an_application() {
    let own = own();
    for library in [1, 2] {
        add(own.ring(), 1, lines(NO_APPLICATION, library), Became::of(1));
        add(own.ring(), 1, lines(5, library), Became::of(1));
    }
    let rows = all(&own);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[&row_key(1, 5)].returned, 2);
}

/// Every row that is taken is marked, so that it is found and emptied.
#[test]
fn taken_rows_are_marked() {
    let own = own();
    for hook in 0..500 {
        add(own.ring(), hook, hook * 3, Became::of(1));
    }
    let marked: Vec<u64> = (0..COUNTS as u64)
        .filter(|row| {
            let word = own.ring().rows[*row as usize / 64].load(Ordering::Relaxed);
            word >> (row % 64) & 1 != 0
        })
        .collect();
    assert_eq!(marked.len(), 500);
    assert!(marked.iter().all(|row| count(&own, *row).key != 0));
}

/// When all tables are full, further rows are refused and counted as lost, and those that there are still count.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn full_tables_lose_and_say_so() {
    let own = own();
    let mut hooks = 0_u32..;
    let refused = hooks.find(|hook| row(own.ring(), *hook, 0).is_none());
    let refused = refused.expect("an end");
    assert!(refused as usize >= ALL_COUNTS - COUNTS, "{refused}");
    assert_eq!(own.ring().uncounted.load(Ordering::Relaxed), 1);
    add(own.ring(), refused, 0, Became::of(1));
    assert_eq!(own.ring().uncounted.load(Ordering::Relaxed), 2);
    for hook in [77, refused - 1] {
        let row = row(own.ring(), hook, 0).expect("it is there");
        returned(own.ring(), row, Became::of(9));
        assert_eq!(count(&own, row).total, 9);
    }
}

/// A row number that the guest has spoiled stays within the table.
#[test]
fn a_wild_row_stays_within() {
    let own = own();
    let known = row(own.ring(), 1, 0).expect("room");
    begun(own.ring(), known + COUNTS as u64 * 1000);
    assert_eq!(count(&own, known).begun, 1);
}

/// What a function's result says is taken from the hook's word: here a `write` that moves bytes or fails.
#[test]
fn a_hook_says_what_results_mean() {
    let outcome = capture::outcome::Outcome {
        failure: Some(Failure::Negative),
        bytes: Some(Bytes::Result),
    };
    let hook = Hook {
        outcome: outcome.to_word(),
        ..Hook::default()
    };
    let frame = crate::calls::hooked::as_call(&hook, [1, 2, 64, 0, 0, 0], 0, 0);
    let of = |result| {
        let became = Became::of_function(&hook, &frame, result, 8);
        (became.failed, became.bytes, became.ticks)
    };
    assert_eq!(of(64), (false, 64, 8));
    assert_eq!(of(u64::MAX), (true, 0, 8));
    let plain = Hook::default();
    let became = Became::of_function(&plain, &frame, u64::MAX, 8);
    assert_eq!((became.failed, became.bytes), (false, 0));
}

/// Bytes of a system call count only where the hook says that it moves them, and not when it failed.
#[test]
fn a_system_call_moves_what_its_hook_says() {
    let outcome = capture::outcome::Outcome {
        failure: None,
        bytes: Some(Bytes::Result),
    };
    let moves = Hook {
        outcome: outcome.to_word(),
        ..Hook::default()
    };
    assert_eq!(Became::of_system_call(&moves, false, 9, 1).bytes, 9);
    assert_eq!(Became::of_system_call(&moves, true, 9, 1).bytes, 0);
    assert_eq!(
        Became::of_system_call(&Hook::default(), false, 9, 1).bytes,
        0
    );
}

proptest! {
    /// Whatever calls come in whatever order, each figure is that of a map, by either way of counting.
    #[test]
    fn counts_are_a_map(calls in prop::collection::vec((0u32..12, 0u32..6, any::<u16>(), any::<bool>()), 1..300)) {
        let own = own();
        let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (hook, line, ticks, at_once) in calls {
            let became = Became::of(ticks.into());
            if !at_once || !add_at_once(own.ring(), hook, line, became) {
                add(own.ring(), hook, line, became);
            }
            model.entry(row_key(hook, line)).or_default().push(ticks.into());
        }
        let rows = all(&own);
        prop_assert_eq!(rows.len(), model.len());
        for (key, all) in model {
            let row = rows[&key];
            prop_assert_eq!((row.begun, row.returned), (all.len() as u64, all.len() as u64));
            prop_assert_eq!(row.total, all.iter().sum::<u64>());
            prop_assert_eq!(row.longest, *all.iter().max().expect("one"));
            prop_assert_eq!(row.buckets.iter().sum::<u32>(), all.len() as u32);
        }
    }
}
