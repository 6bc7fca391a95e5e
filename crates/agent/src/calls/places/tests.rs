//! The table of lines of a ring, without a VM: lines have no text then, and are numbered all the same.

use super::*;
use crate::calls::ring::fixture::Own;
use proptest::prelude::*;
use std::collections::HashMap;
use std::vec::Vec;

fn asker(own: &Own) -> Asker<'_> {
    Asker {
        ring: own.ring(),
        calls: session::calls(),
        wary: None,
        strict: false,
    }
}

fn at(code: u64, point: u64, witness: u64) -> Place {
    Place {
        code,
        point,
        witness,
        number: 0,
    }
}

/// The number that a place has, which it gets if it is new.
fn number(own: &Own, place: Place) -> Option<u64> {
    let entry = asker(own).known(place, None)?;
    // SAFETY: the entry is in the ring's table.
    Some(unsafe { (*entry).number } & NUMBER)
}

/// Lines are numbered from 1 on, in the order in which they come, and keep their number.
#[test]
fn lines_are_numbered_in_order() {
    let own = Own::new(1 << 12);
    let lines = [at(1, 1, 1), at(1, 2, 1), at(2, 1, 1)];
    assert_eq!(
        lines.map(|line| number(&own, line)),
        [Some(1), Some(2), Some(3)]
    );
    assert_eq!(
        lines.map(|line| number(&own, line)),
        [Some(1), Some(2), Some(3)]
    );
}

/// New code at the address of code that was freed is another line, by its witness.
#[test]
fn a_witness_tells_new_code() {
    let own = Own::new(1 << 12);
    assert_ne!(number(&own, at(1, 1, 7)), number(&own, at(1, 1, 8)));
}

/// When all numbers are given, a new line has none, and the old ones are still known.
#[test]
fn numbers_come_to_their_end() {
    let own = Own::new(1 << 12);
    for line in 1..=u64::from(MOST_LINES) {
        assert_eq!(number(&own, at(line, 0, 0)), Some(line));
    }
    assert_eq!(number(&own, at(u64::from(MOST_LINES) + 1, 0, 0)), None);
    assert_eq!(number(&own, at(1, 0, 0)), Some(1));
}

/// The reader is told a line once, before it is named, and then never again.
#[test]
fn a_line_is_told_once() {
    let own = Own::new(1 << 12);
    let entry = asker(&own).known(at(1, 1, 1), None).expect("room");
    assert_eq!(asker(&own).told(entry, None) & NUMBER, 1);
    assert_eq!(asker(&own).told(entry, None) & NUMBER, 1);
    let records = own.take();
    assert_eq!(records.len(), 1);
    let (_, kind, body) = &records[0];
    assert_eq!(*kind, kind::PLACE);
    // The number and the line in one word, the lengths of both texts in the next.
    assert_eq!(body[..], [1, 0]);
}

/// A line for whose record there is no room is not named, and is told at the next call.
#[test]
fn a_line_without_room_is_told_later() {
    let own = Own::new(512);
    let entry = asker(&own).known(at(1, 1, 1), None).expect("room");
    for _ in 0..16 {
        let record = Record::begin(own.ring(), kind::FORK, 4, 0).expect("room");
        record.end(0);
    }
    assert_eq!(asker(&own).told(entry, None), 0);
    own.take();
    assert_eq!(asker(&own).told(entry, None) & NUMBER, 1);
}

/// Without a script no call has a line.
#[test]
fn without_a_script_there_is_no_line() {
    let own = Own::new(1 << 12);
    assert_eq!(current(own.ring()), (0, 0));
}

/// Without tests of lines no line passes any.
#[test]
fn without_tests_no_line_passes() {
    assert_eq!(line_bits(session::calls(), b"/a.rb:1"), 0);
    assert_eq!(bits(session::calls(), &Words::default()), 0);
}

proptest! {
    /// The table of lines is a map, however the lines share parts of what names them.
    #[test]
    fn the_table_is_a_map(lines in prop::collection::vec((1u64..20, 0u64..20, 0u64..3), 1..400)) {
        let own = Own::new(1 << 12);
        let mut model = HashMap::new();
        let mut given = Vec::new();
        for line in lines {
            let next = model.len() as u64 + 1;
            let expected = *model.entry(line).or_insert(next);
            let (code, point, witness) = line;
            prop_assert_eq!(number(&own, at(code, point, witness)), Some(expected));
            given.push((line, expected));
        }
        for ((code, point, witness), expected) in given {
            prop_assert_eq!(number(&own, at(code, point, witness)), Some(expected));
        }
    }
}
