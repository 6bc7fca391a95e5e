//! A handler of the same thread counts in the middle of a count.

use super::steps::everywhere;
use crate::calls::counts::{Became, add, row};
use crate::calls::ring::fixture::Own;
use crate::calls::tables::{forget_counts, forget_marked};
use crate::memory::follow::ours;
use core::sync::atomic::Ordering;
use wire::calls::{COUNTS, Count, first_row, row_key};

fn own() -> Own {
    Own::new(1 << 12)
}

/// A ring whose table is there.
fn with_table() -> Own {
    let own = own();
    row(own.ring(), 1000, 0).expect("room");
    own
}

/// The rows of the first table that are taken, with their places.
fn rows(own: &Own) -> impl Iterator<Item = (usize, Count)> {
    let table = ours::<Count>(own.ring().counts.load(Ordering::Relaxed));
    let places = (0..COUNTS).filter(move |_| !table.is_null());
    // SAFETY: the rows are in the ring's table, and nobody changes them now.
    let rows = places.map(move |at| (at, unsafe { *table.add(at) }));
    rows.filter(|(_, row)| row.key != 0)
}

/// The row of a hook, which must be there once.
fn of_hook(own: &Own, hook: u32) -> Count {
    let mut found = rows(own).filter(|(_, row)| row.key == row_key(hook, 0));
    let (_, row) = found.next().expect("a row");
    assert!(found.next().is_none(), "hook {hook} has two rows");
    row
}

/// Another hook whose row is looked for in the same place first.
fn beside_three() -> u32 {
    let first = first_row(row_key(3, 0));
    (4..)
        .find(|hook| first_row(row_key(*hook, 0)) == first)
        .expect("one")
}

/// Two calls of one row: no figure loses one of them. The table is made by whoever comes first.
#[test]
fn a_call_in_a_call_of_the_same_row() {
    for make in [own, with_table] {
        everywhere(
            make,
            |own| add(own.ring(), 3, 0, Became::of(100)),
            |own| add(own.ring(), 3, 0, Became::of(50)),
            |own, at| {
                let row = of_hook(own, 3);
                assert_eq!(
                    (
                        row.begun,
                        row.returned,
                        row.total,
                        row.longest,
                        row.shortest
                    ),
                    (2, 2, 150, 100, 50),
                    "behind instruction {at}"
                );
                assert_eq!(row.buckets.iter().sum::<u32>(), 2);
            },
        );
    }
}

/// Two calls whose rows begin at the same place: each gets its own.
#[test]
fn a_call_in_a_call_of_another_row() {
    everywhere(
        with_table,
        |own| add(own.ring(), 3, 0, Became::of(100)),
        |own| add(own.ring(), beside_three(), 0, Became::of(50)),
        |own, at| {
            let rows = [3, beside_three()].map(|hook| of_hook(own, hook));
            assert_eq!(
                rows.map(|row| (row.begun, row.returned, row.total)),
                [(1, 1, 100), (1, 1, 50)],
                "behind instruction {at}"
            );
        },
    );
}

/// A ring with a row of hook 3 and one whose mark is in the same word, and where the row of hook 3 is.
struct Emptied {
    own: Own,
    place: usize,
}

impl Emptied {
    fn new() -> Self {
        let own = own();
        let place = row(own.ring(), 3, 0).expect("room") as usize;
        let near = (4..).find(|hook| first_row(row_key(*hook, 0)) / 64 == place / 64);
        add(own.ring(), near.expect("one"), 0, Became::of(9));
        Emptied { own, place }
    }

    fn empty(&self) {
        let ring = self.own.ring();
        let table = ours::<Count>(ring.counts.load(Ordering::Relaxed));
        let word = self.place / 64;
        // SAFETY: the table is this ring's, and whoever comes in between is played by this thread.
        unsafe { forget_marked(table, word * 64, &ring.rows[word]) };
    }
}

/// Whatever a handler counts while a session begins, no row is taken without its mark, by which the next session empties it.
#[test]
fn a_call_while_a_table_is_emptied() {
    everywhere(
        Emptied::new,
        Emptied::empty,
        |emptied| add(emptied.own.ring(), 3, 0, Became::of(5)),
        |emptied, at| {
            let is_marked = |place: usize| {
                let marks = emptied.own.ring().rows[place / 64].load(Ordering::Relaxed);
                marks >> (place % 64) & 1 != 0
            };
            for (place, row) in rows(&emptied.own) {
                assert!(is_marked(place), "row {place} behind instruction {at}");
                assert_eq!(row.key, row_key(3, 0), "behind instruction {at}");
            }
            forget_counts(emptied.own.ring());
            assert_eq!(rows(&emptied.own).count(), 0, "behind instruction {at}");
        },
    );
}
