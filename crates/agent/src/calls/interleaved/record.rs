//! A handler of the same thread writes a record in the middle of another.

use super::steps::everywhere;
use crate::calls::record::{Record, Room};
use crate::calls::ring::fixture::Own;
use core::sync::atomic::Ordering;
use std::vec;
use std::vec::Vec;
use wire::calls::kind;
use wire::calls::record::{RecordedRegisters, Shape};

/// Bytes of a ring of 64 words.
const SMALL: u64 = 512;

fn write(own: &Own, body: &[u64]) {
    let words = body.len() as u64 + 1;
    let record = Record::begin(own.ring(), kind::FORK, words, 0).expect("room");
    for (index, word) in (0..).zip(body) {
        record.word(index, *word);
    }
    record.end(0);
}

/// What the handler does.
fn of_handler(own: &Own) {
    write(own, &[7]);
}

/// The bodies of all records, in any order.
fn bodies(own: &Own) -> Vec<Vec<u64>> {
    let records = own.take().into_iter();
    let records = records.filter(|(_, of, _)| *of != kind::GAP);
    let mut bodies: Vec<_> = records.map(|(_, _, body)| body).collect();
    bodies.sort();
    bodies
}

fn both(own: &Own, at: usize) {
    let lost = own.ring().written.lost.load(Ordering::Relaxed);
    assert_eq!(
        (bodies(own), lost),
        (vec![vec![1, 2, 3], vec![7]], 0),
        "behind instruction {at}"
    );
}

/// Both records are read whole, wherever the handler comes.
#[test]
fn a_record_in_a_record() {
    let make = || Own::new(SMALL);
    everywhere(make, |own| write(own, &[1, 2, 3]), of_handler, both);
}

/// The same where the first record finds no room before the end of the ring, and a gap fills the rest.
#[test]
fn a_record_where_the_ring_begins_anew() {
    let make = || {
        let own = Own::new(SMALL);
        for _ in 0..6 {
            write(&own, &[9; 9]);
            own.take();
        }
        write(&own, &[9; 1]);
        own.take();
        own
    };
    // 62 of 64 words are used.
    everywhere(make, |own| write(own, &[1, 2, 3]), of_handler, both);
}

/// The same for a record that gives back what it does not need.
#[test]
fn a_record_in_one_that_is_shortened() {
    let shortened = |own: &Own| {
        let mut record = Record::begin(own.ring(), kind::FORK, 20, 0).expect("room");
        for index in 0..3 {
            record.word(index, index + 1);
        }
        record.shorten(own.ring(), 3);
        record.end(0);
    };
    everywhere(|| Own::new(SMALL), shortened, of_handler, both);
}

/// A record as it is read: position, kind and body.
type Read = (u64, u64, Vec<u64>);

fn shape() -> Shape {
    RecordedRegisters::UNKNOWN.shape(true, true)
}

/// A return is told once: in the room behind its call, or in a record of its own where a handler's record came before.
#[test]
fn a_record_before_a_return() {
    let make = || {
        let own = Own::new(SMALL);
        let record = Record::begin(own.ring(), kind::ENTRY, 4, shape().room_words());
        record
            .expect("room")
            .end_before_room(own.ring(), shape(), 500);
        own
    };
    let returns = |own: &Own| match Room::of(own.ring(), 500) {
        Some(room) => {
            room.word(0, 20);
            room.word(1, 77);
            room.end();
        }
        None => write(own, &[20, 77]),
    };
    everywhere(make, returns, of_handler, |own, at| {
        let records = own.take();
        let count = |is: &dyn Fn(&Read) -> bool| records.iter().filter(|record| is(record)).count();
        let entries = count(&|(_, of, _)| *of == kind::ENTRY);
        let told = count(&|(_, of, body)| *of != kind::ENTRY && body.starts_with(&[20, 77]));
        let of_handler = count(&|(_, of, body)| *of == kind::FORK && *body == [7]);
        assert_eq!(
            (entries, told, of_handler),
            (1, 1, 1),
            "behind instruction {at}: {records:?}"
        );
    });
}
