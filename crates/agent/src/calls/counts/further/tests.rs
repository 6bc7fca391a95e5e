//! Rows behind the first table, against a map from hook and line to figures.

use super::*;
use crate::calls::counts::{Became, add, at, begun, forget as forget_further, returned, row};
use crate::calls::ring::fixture::Own;
use crate::calls::tables::forget_counts;
use std::collections::HashSet;

fn own() -> Own {
    Own::new(1 << 12)
}

/// A row, copied.
fn count(own: &Own, number: u64) -> Count {
    let at = at(own.ring(), number).expect("a table");
    // SAFETY: the row is in one of the ring's tables.
    unsafe { *at }
}

fn used(own: &Own) -> u64 {
    own.ring().further.used.load(Ordering::Relaxed)
}

/// A thread whose rows the first table holds makes no further one, whatever their hashes are.
#[test]
fn few_rows_need_no_further_table() {
    let own = own();
    for hook in 0..500 {
        add(own.ring(), hook, 0, Became::of(1));
    }
    assert_eq!(used(&own), 0);
    assert_eq!(own.ring().further.tables[0].load(Ordering::Relaxed), 0);
    assert_eq!(own.ring().further.index.load(Ordering::Relaxed), 0);
}

/// As many rows as three tables hold: each pair of hook and line has a row of its own, which is found again and counts its calls.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn rows_go_on_in_further_tables() {
    let own = own();
    let pairs = || (0..3 * COUNTS as u32).map(|number| (number / 3, number % 3));
    for round in 1..=2 {
        for (hook, line) in pairs() {
            let number = row(own.ring(), hook, line).expect("room");
            begun(own.ring(), number);
            returned(own.ring(), number, Became::of(u64::from(hook) + 1));
            assert_eq!(count(&own, number).returned, round, "{hook} {line}");
        }
    }
    let rows: HashSet<u64> = pairs()
        .map(|(hook, line)| row(own.ring(), hook, line).expect("room"))
        .collect();
    assert_eq!(rows.len(), 3 * COUNTS);
    assert_eq!(own.ring().uncounted.load(Ordering::Relaxed), 0);
    // They are dense: no more tables are made than their number asks for.
    let behind = rows.iter().filter(|row| **row >= COUNTS as u64).count();
    assert_eq!(used(&own), behind as u64);
    let made = |table: &&AtomicU64| table.load(Ordering::Relaxed) > REFUSED;
    let tables = own.ring().further.tables.iter().filter(made).count();
    assert_eq!(tables, behind.div_ceil(COUNTS));
}

/// The next session finds no row and no count of the one before, and counts in the tables that there are.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn a_session_begins_with_empty_rows() {
    let own = own();
    let all = || 0..2 * COUNTS as u32;
    all().for_each(|hook| add(own.ring(), hook, 0, Became::of(1)));
    let table = own.ring().further.tables[0].load(Ordering::Relaxed);
    assert_ne!(used(&own), 0);
    forget_counts(own.ring());
    assert_eq!(used(&own), 0);
    all().rev().for_each(|hook| {
        let number = row(own.ring(), hook, 7).expect("room");
        assert_eq!(count(&own, number).begun, 0);
        begun(own.ring(), number);
    });
    assert_eq!(
        own.ring().further.tables[0].load(Ordering::Relaxed),
        table,
        "the table is used again"
    );
}

/// Where no table can be made, the rest of the first one is used, calls beyond it are counted as lost, and the next session tries again.
#[test]
fn a_refused_table_leaves_the_first() {
    let own = own();
    own.ring().further.tables[0].store(REFUSED, Ordering::Relaxed);
    for hook in 0..COUNTS as u32 {
        assert!(row(own.ring(), hook, 0).is_some());
    }
    assert_eq!(row(own.ring(), COUNTS as u32, 0), None);
    assert_eq!(own.ring().uncounted.load(Ordering::Relaxed), 1);
    forget_further(own.ring());
    assert!(row(own.ring(), COUNTS as u32, 0).is_some());
}
