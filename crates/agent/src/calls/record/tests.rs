//! Records in a ring, as the reader takes them.
//!
//! A signal handler that runs between two steps is played by the test itself: it does what the handler would do at that place, which is
//! all there is to it, since the handler runs to its end on the same thread.

use super::*;
use crate::calls::ring::fixture::Own;
use proptest::prelude::*;
use std::vec::Vec;
use wire::calls::record::RecordedRegisters;

/// Bytes of a ring of 64 words.
const SMALL: u64 = 512;

/// Writes a record whose body is these words.
fn write(own: &Own, body: &[u64]) -> bool {
    let words = body.len() as u64 + 1;
    let Some(record) = Record::begin(own.ring(), kind::FORK, words, 0) else {
        return false;
    };
    for (index, word) in (0..).zip(body) {
        record.word(index, *word);
    }
    record.end(0);
    true
}

fn bodies(own: &Own) -> Vec<Vec<u64>> {
    let records = own.take().into_iter();
    records
        .filter(|(_, of, _)| *of != kind::GAP)
        .map(|(_, _, body)| body)
        .collect()
}

/// An empty ring has nothing to read.
#[test]
fn an_empty_ring_has_nothing() {
    let own = Own::new(SMALL);
    assert_eq!(own.take(), []);
}

/// A record is read with its kind and its words.
#[test]
fn a_record_is_read() {
    let own = Own::new(SMALL);
    assert!(write(&own, &[1, 2, 3]));
    assert_eq!(own.take(), [(0, kind::FORK, std::vec![1, 2, 3])]);
    assert_eq!(own.take(), []);
}

/// A record that is still being written hides itself and what follows, until it is complete.
#[test]
fn a_begun_record_is_not_read() {
    let own = Own::new(SMALL);
    let record = Record::begin(own.ring(), kind::FORK, 2, 0).expect("room");
    assert!(write(&own, &[5]));
    assert_eq!(own.take(), []);
    record.word(0, 4);
    record.end(0);
    assert_eq!(bodies(&own), [[4], [5]]);
}

/// A record that a longjmp left is begun for ever, and says how long it would have been.
#[test]
fn a_record_that_was_left_says_its_length() {
    let own = Own::new(SMALL);
    let _left = Record::begin(own.ring(), kind::FORK, 5, 3);
    assert_eq!(wire::calls::open(own.word(0), 0), Some((8, kind::BEGUN)));
}

/// A record does not go over the end of the ring: a gap fills the rest.
#[test]
fn a_record_does_not_wrap() {
    let own = Own::new(SMALL);
    for _ in 0..6 {
        assert!(write(&own, &[7; 9]));
        own.take();
    }
    // 60 of 64 words are used.
    assert!(write(&own, &[8; 5]));
    let records = own.take();
    assert_eq!((records[0].0, records[0].1), (60, kind::GAP));
    assert_eq!(records[1], (64, kind::FORK, std::vec![8; 5]));
}

/// A record that ends exactly with the ring needs no gap.
#[test]
fn a_record_may_end_with_the_ring() {
    let own = Own::new(SMALL);
    for _ in 0..8 {
        assert!(write(&own, &[7; 7]));
    }
    assert_eq!(own.take().len(), 8);
    assert!(write(&own, &[9]));
    assert_eq!(own.take(), [(64, kind::FORK, std::vec![9])]);
}

/// In a full ring a record is dropped and counted, and nothing that was not read is overwritten.
#[test]
fn a_full_ring_drops_and_counts() {
    let own = Own::new(SMALL);
    for number in 0..8 {
        assert!(write(&own, &[number; 7]));
    }
    assert!(!write(&own, &[99]));
    assert!(!write(&own, &[99; 7]));
    assert_eq!(own.ring().written.lost.load(Ordering::Relaxed), 2);
    let expected: Vec<_> = (0..8).map(|number| std::vec![number; 7]).collect();
    assert_eq!(bodies(&own), expected);
    assert!(write(&own, &[1]));
}

/// After a wait in vain no other is made until what was there then has been read.
#[test]
fn a_vain_wait_is_not_repeated() {
    let own = Own::new(SMALL);
    for _ in 0..8 {
        write(&own, &[7; 7]);
    }
    assert!(!write(&own, &[1]));
    assert_eq!(own.ring().waits_from.load(Ordering::Relaxed), 64);
}

/// A record that is longer than the ring is refused and counted; the ring goes on when its reader has passed the gap.
#[test]
fn a_record_longer_than_the_ring_is_refused() {
    let own = Own::new(SMALL);
    assert!(Record::begin(own.ring(), kind::FORK, 65, 0).is_none());
    assert_eq!(own.ring().written.lost.load(Ordering::Relaxed), 1);
    own.take();
    assert!(write(&own, &[1]));
}

/// A ring without room at all, whose pool was taken away, refuses without a wait.
#[test]
fn a_ring_without_memory_refuses() {
    let own = Own::new(SMALL);
    // SAFETY: nobody else uses the ring.
    unsafe { (*ours::<Ring>(own.address())).size = 0 };
    assert!(Record::begin(own.ring(), kind::FORK, 2, 0).is_none());
    // SAFETY: as above; the fixture unmaps what it has mapped.
    unsafe { (*ours::<Ring>(own.address())).size = SMALL };
}

/// A record at once is refused where it is not known that there is room, and then nothing is changed.
#[test]
fn at_once_needs_known_room() {
    let own = Own::new(SMALL);
    assert!(Record::at_once(own.ring(), kind::FORK, 2, 0).is_none());
    assert_eq!(own.ring().written.reserved.load(Ordering::Relaxed), 0);
    assert!(write(&own, &[1]));
    let record = Record::at_once(own.ring(), kind::FORK, 2, 0).expect("there is room now");
    record.word(0, 2);
    record.end(0);
    assert_eq!(bodies(&own), [[1], [2]]);
}

/// What a record does not need is given back, and the next one stands right behind it.
#[test]
fn a_record_gives_room_back() {
    let own = Own::new(SMALL);
    let mut record = Record::begin(own.ring(), kind::FORK, 20, 0).expect("room");
    record.word(0, 6);
    record.shorten(own.ring(), 1);
    record.end(0);
    assert_eq!(own.ring().written.reserved.load(Ordering::Relaxed), 2);
    assert!(write(&own, &[7]));
    assert_eq!(bodies(&own), [[6], [7]]);
}

/// Where a handler's record follows, what is not needed becomes a gap.
#[test]
fn room_before_a_handlers_record_becomes_a_gap() {
    let own = Own::new(SMALL);
    let mut record = Record::begin(own.ring(), kind::FORK, 20, 0).expect("room");
    assert!(write(&own, &[7]));
    record.word(0, 6);
    record.shorten(own.ring(), 1);
    record.end(0);
    let kinds: Vec<_> = own.take().iter().map(|(at, of, _)| (*at, *of)).collect();
    assert_eq!(kinds, [(0, kind::FORK), (2, kind::GAP), (20, kind::FORK)]);
}

/// A record that needs all that it has reserved is not made longer by shortening.
#[test]
fn shortening_makes_nothing_longer() {
    let own = Own::new(SMALL);
    let mut record = Record::begin(own.ring(), kind::FORK, 3, 0).expect("room");
    record.shorten(own.ring(), 2);
    record.shorten(own.ring(), 60);
    assert_eq!(record.body(), 2);
    assert_eq!(own.ring().written.reserved.load(Ordering::Relaxed), 3);
}

/// Parts of the body are written in words, at the word that was named.
#[test]
fn parts_are_written_in_their_place() {
    let own = Own::new(SMALL);
    let record = Record::begin(own.ring(), kind::FORK, 4, 0).expect("room");
    record.word(0, 1);
    // SAFETY: two words fit into the body from word 1 on.
    unsafe { record.part(1, [0x11u32, 0x22, 0x33, 0x44]) };
    assert_eq!(record.address(1), record.address(0) + 8);
    record.end(0);
    assert_eq!(bodies(&own), [[1, 0x22 << 32 | 0x11, 0x44 << 32 | 0x33]]);
}

fn shape() -> Shape {
    RecordedRegisters::UNKNOWN.shape(true, true)
}

/// Writes a call that began at these ticks, with room for its return.
fn call(own: &Own, ticks: u64) {
    let record = Record::begin(own.ring(), kind::ENTRY, 4, shape().room_words()).expect("room");
    record.end_before_room(own.ring(), shape(), ticks);
}

/// The return of a call is written into the room behind it if nothing was recorded in between.
#[test]
fn a_return_fills_its_room() {
    let own = Own::new(SMALL);
    call(&own, 500);
    let room = Room::of(own.ring(), 500).expect("room");
    room.word(0, 20);
    room.word(1, 77);
    room.end();
    let records = own.take();
    assert_eq!((records[0].1, records[1].1), (kind::ENTRY, kind::RETURNED));
    assert_eq!(records[1].2[..2], [20, 77]);
}

/// The room is that of the call which began at that time, and of no other.
#[test]
fn the_room_is_of_one_call() {
    let own = Own::new(SMALL);
    call(&own, 500);
    assert!(Room::of(own.ring(), 501).is_none());
    call(&own, 600);
    assert!(Room::of(own.ring(), 500).is_none());
    assert!(Room::of(own.ring(), 600).is_some());
}

/// The room is used once.
#[test]
fn the_room_is_used_once() {
    let own = Own::new(SMALL);
    call(&own, 500);
    Room::of(own.ring(), 500).expect("room").end();
    assert!(Room::of(own.ring(), 500).is_none());
}

/// Where another record follows, the return is written elsewhere.
#[test]
fn a_record_behind_it_closes_the_room() {
    let own = Own::new(SMALL);
    call(&own, 500);
    assert!(write(&own, &[1]));
    assert!(Room::of(own.ring(), 500).is_none());
}

/// A room that a later lap has overwritten is not taken for one, though its place in the ring is the same.
#[test]
fn a_room_of_the_lap_before_is_none() {
    let own = Own::new(SMALL);
    call(&own, 500);
    let room = own.ring().written.room.load(Ordering::Relaxed);
    own.ring().taken.0.store(64, Ordering::Relaxed);
    for _ in 0..4 {
        own.ring().taken.0.fetch_add(64, Ordering::Relaxed);
        write(&own, &[9; 14]);
    }
    own.ring().written.room.store(room, Ordering::Relaxed);
    own.ring().written.began.store(500, Ordering::Relaxed);
    assert!(Room::of(own.ring(), 500).is_none());
}

/// The shape of the return is remembered in the room: what was wanted at the call is written at the return.
#[test]
fn the_room_remembers_its_shape() {
    let own = Own::new(SMALL);
    let wanted = RecordedRegisters {
        narrow_result: true,
        second_result: true,
        ..RecordedRegisters::UNKNOWN
    };
    let shape = wanted.shape(true, false);
    let record = Record::begin(own.ring(), kind::ENTRY, 4, shape.room_words()).expect("room");
    record.end_before_room(own.ring(), shape, 9);
    let found = Room::of(own.ring(), 9).expect("room").shape;
    assert!(found.has_narrow_result() && found.second_result());
    assert_eq!(found.vector_results(), 0);
}

/// The reader stops before a room that may still be filled, and goes past it once something follows.
#[test]
fn a_reader_stops_before_an_open_room() {
    let own = Own::new(SMALL);
    call(&own, 500);
    assert_eq!(readable(own.ring()), 4);
    assert!(write(&own, &[1]));
    assert_eq!(
        readable(own.ring()),
        own.ring().written.reserved.load(Ordering::Relaxed)
    );
}

/// The exchange changes a word only if it is the expected one, and says so.
#[test]
fn an_exchange_says_whether_it_was_made() {
    let word = AtomicU64::new(5);
    assert!(!exchange(&word, 4, 9));
    assert_eq!(word.load(Ordering::Relaxed), 5);
    assert!(exchange(&word, 5, 9));
    assert_eq!(word.load(Ordering::Relaxed), 9);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    /// A record in the middle of which a handler writes others.
    Interrupted(usize, usize),
    /// A record that is shortened.
    Shortened(usize, usize),
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..20).prop_map(Step::Write),
        (1usize..10, 0usize..8).prop_map(|(body, handlers)| Step::Interrupted(body, handlers)),
        (1usize..20, 0usize..20).prop_map(|(body, kept)| Step::Shortened(body, kept.min(body))),
        Just(Step::Read),
    ]
}

proptest! {
    /// Whatever is written, interrupted, shortened and read, the reader gets every record that was not refused, whole and in order.
    #[test]
    fn the_reader_gets_what_was_written(steps in prop::collection::vec(step(), 1..300)) {
        let own = Own::new(SMALL);
        let (mut expected, mut read, mut number) = (Vec::new(), Vec::new(), 0u64);
        let mut fresh = |length: usize| -> Vec<u64> {
            number += 1;
            (0..length as u64).map(|at| number << 8 | at).collect()
        };
        for step in steps {
            match step {
                Step::Write(length) => {
                    let body = fresh(length);
                    if write(&own, &body) {
                        expected.push(body);
                    }
                }
                Step::Interrupted(length, handlers) => {
                    let body = fresh(length);
                    let Some(record) = Record::begin(own.ring(), kind::FORK, length as u64 + 1, 0) else {
                        continue;
                    };
                    let inner: Vec<_> = (0..handlers).map(|_| fresh(2)).filter(|body| write(&own, body)).collect();
                    for (index, word) in (0..).zip(&body) {
                        record.word(index, *word);
                    }
                    record.end(0);
                    expected.push(body);
                    expected.extend(inner);
                }
                Step::Shortened(length, kept) => {
                    let body = fresh(kept);
                    let Some(mut record) = Record::begin(own.ring(), kind::FORK, length as u64 + 1, 0) else {
                        continue;
                    };
                    for (index, word) in (0..).zip(&body) {
                        record.word(index, *word);
                    }
                    record.shorten(own.ring(), kept as u64);
                    record.end(0);
                    expected.push(body);
                }
                Step::Read => read.extend(bodies(&own)),
            }
        }
        read.extend(bodies(&own));
        prop_assert_eq!(read, expected);
    }
}
