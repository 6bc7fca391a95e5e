//! The two ways to the records of rings hand on the same.
//!
//! The guest is this process: a buffer of the test holds what the agent would have written.

use super::hostile::Random;
use super::{RingEvent, RingEventKind, Rings};
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::sync::Arc;
use wire::calls::{self, Calls, Ring, kind};

const RINGS: usize = 3;
const WORDS: usize = 1024;
const CALLS: usize = size_of::<Calls>().div_ceil(8);
const PAGE: usize = wire::PAGE / 8;

/// [`Calls`], then headers of rings a page apart, then their records.
struct Image {
    words: Vec<u64>,
    /// How far each ring is written, in words ever.
    written: [u64; RINGS],
}

impl Image {
    fn new() -> Self {
        let mut words = vec![0; CALLS + RINGS * PAGE + RINGS * WORDS];
        let at = words.as_ptr() as u64;
        words[offset_of!(Calls, made) / 8] = 1;
        for ring in 0..RINGS {
            let (header, records) = (Self::header(ring), Self::records(ring));
            words[offset_of!(Calls, rings) / 8 + ring] = at + header as u64 * 8;
            words[header + offset_of!(Ring, records) / 8] = at + records as u64 * 8;
            words[header + offset_of!(Ring, size) / 8] = WORDS as u64 * 8;
        }
        Image {
            words,
            written: [0; RINGS],
        }
    }

    fn header(ring: usize) -> usize {
        CALLS + ring * PAGE
    }

    fn records(ring: usize) -> usize {
        CALLS + RINGS * PAGE + ring * WORDS
    }

    /// Writes a record, behind a gap if the rest of the ring is too short.
    fn write(&mut self, ring: usize, what: u64, body: &[u64]) {
        let length = body.len() + 1;
        let left = WORDS - self.written[ring] as usize % WORDS;
        if length > left {
            self.put(ring, kind::GAP, left, &[]);
        }
        self.put(ring, what, length, body);
        let reserved = Self::header(ring) + offset_of!(Ring, reserved) / 8;
        self.words[reserved] = std::hint::black_box(self.written[ring]);
    }

    fn put(&mut self, ring: usize, what: u64, length: usize, body: &[u64]) {
        let position = self.written[ring];
        let at = Self::records(ring) + position as usize % WORDS;
        self.words[at] = calls::header(length as u64, what, position);
        self.words[at + 1..][..body.len()].copy_from_slice(body);
        self.written[ring] += length as u64;
    }
}

/// A return at `ticks`, with so many words behind its fixed part.
fn written(ticks: u64, more: u64) -> Vec<u64> {
    let more = (0..more).map(|word| ticks ^ word);
    [7, ticks, ticks * 16, ticks + 1, 0]
        .into_iter()
        .chain(more)
        .collect()
}

#[test]
fn both_ways_hand_on_every_record_once_and_in_the_order_of_its_ring() {
    let memory = Arc::new(GuestMemory::open(std::process::id() as i32).expect("our own memory"));
    let mut random = Random(0x77aa_1234_8642_0f0f);
    let mut image = Image::new();
    let open = |session| Rings::open(memory.clone(), None, image.words.as_ptr() as u64, session);
    let mut rings = open(1).expect("an image");
    let mut seen: [Vec<(u64, usize)>; RINGS] = Default::default();
    let mut expected = seen.clone();
    let (mut ticks, mut rest) = (0, Vec::new());
    for turn in 0..2000 {
        let mut in_turn = 0;
        for _ in 0..random.next() % 16 {
            let ring = random.next() as usize % RINGS;
            ticks += 1;
            in_turn += 1;
            let more = random.next() % 9;
            image.write(ring, kind::RETURN, &written(ticks, more));
            expected[ring].push((ticks, more as usize));
        }
        let mut note = |event: RingEvent, rest: &[u64]| {
            let RingEventKind::Return {
                frame, registers, ..
            } = event.kind
            else {
                panic!("only returns are written: {event:?}");
            };
            assert_eq!((frame, registers[0]), (event.ticks * 16, event.ticks + 1));
            assert!(
                rest.iter()
                    .zip(0..)
                    .all(|(word, at)| *word == event.ticks ^ at)
            );
            seen[event.ring as usize].push((event.ticks, rest.len()));
        };
        if turn % 3 == 0 {
            // Some of it waits, and is handed on by the other way.
            rings.fill(64).expect("our own memory");
            for _ in 0..in_turn / 2 {
                if let Some(event) = rings.next(&mut rest) {
                    note(event, &rest);
                }
            }
        }
        while rings
            .for_each_of_ring(24, &mut note)
            .expect("our own memory")
        {}
    }
    assert_eq!(seen, expected);
    assert!(ticks > 10_000);
}
