//! The two ways to the records of rings hand on the same.
//!
//! The guest is this process: a buffer of the test holds what the agent would have written.

use super::hostile::Random;
use super::read::now;
use super::{Events, RingEvent, RingEventKind, Rings, ShortCall};
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::sync::Arc;
use wire::calls::{self, Calls, Ring, kind, record};

const STACK: u64 = 0x7fff_0000_0010;
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
        self.reserve(ring, 0);
    }

    /// Reserves `more` words beyond those written.
    fn reserve(&mut self, ring: usize, more: u64) {
        let reserved = Self::header(ring) + offset_of!(Ring, written.reserved) / 8;
        self.words[reserved] = std::hint::black_box(self.written[ring] + more);
    }

    /// Fills the room that was written last, with the return of a call that took `took` ticks.
    fn fill(&mut self, ring: usize, took: u64, ticks: u64) {
        let position = self.written[ring] - 3;
        let at = Self::records(ring) + position as usize % WORDS;
        self.words[at + 1] = took;
        self.words[at + 2] = value(ticks);
        self.words[at] = std::hint::black_box(calls::header(3, kind::RETURNED, position));
    }

    fn put(&mut self, ring: usize, what: u64, length: usize, body: &[u64]) {
        let position = self.written[ring];
        let at = Self::records(ring) + position as usize % WORDS;
        let shape = if what == kind::ENTRY { 1 << 24 } else { 0 };
        self.words[at] = calls::header(length as u64, what, position) | shape;
        self.words[at + 1..][..body.len()].copy_from_slice(body);
        self.written[ring] += length as u64;
    }
}

/// The body of a call or a return at `ticks`, with rdi or rax, and with `more` words of copies behind it.
fn written(what: u64, ticks: u64, more: u64) -> Vec<u64> {
    let begin = match what {
        kind::ENTRY => record::call(7, 0, ticks, STACK, 0x5000).to_vec(),
        _ => record::back(7, ticks, STACK).to_vec(),
    };
    let more = (0..more).map(|word| value(ticks ^ word));
    begin
        .into_iter()
        .chain([value(ticks)])
        .chain(more)
        .collect()
}

/// A number that is no header of a record at any position of the test: what lies in the ring since an earlier round must not be taken for one. The counter
/// itself has in its upper half the number of a word that the test comes to, some hours after the machine has started.
fn value(ticks: u64) -> u64 {
    ticks | 1 << 63
}

/// What a test notes of an event: how many ticks, whether it is a call, and words of copies.
type Seen = (u64, bool, usize);

fn seen(event: &RingEvent, rest: &[u64], origin: u64) -> Seen {
    let (call, register, frame) = match event.kind {
        RingEventKind::Call {
            registers, frame, ..
        } => (true, registers[0], frame),
        RingEventKind::Return {
            registers, frame, ..
        } => (false, registers[0], frame),
        RingEventKind::Forked { .. } => panic!("nothing forks: {event:?}"),
    };
    assert_eq!((frame, register), (STACK, value(event.ticks)));
    // Room for vector registers, none of which was recorded.
    let vectors = if call { 8 } else { 2 };
    let copies = rest.get(vectors..).unwrap_or_default();
    assert!(
        copies
            .iter()
            .zip(0..)
            .all(|(word, at)| *word == value(event.ticks ^ at))
    );
    (event.ticks - origin, call, copies.len())
}

/// Notes the events of all rings.
struct Note<'a> {
    all: &'a mut [Vec<Seen>; RINGS],
    origin: u64,
    /// How many came as one with their return.
    shorts: &'a mut u64,
}

impl Events for Note<'_> {
    fn event(&mut self, event: RingEvent, rest: &[u64]) {
        self.all[event.ring as usize].push(seen(&event, rest, self.origin));
    }

    fn short(&mut self, call: &ShortCall) -> bool {
        *self.shorts += 1;
        // Now and then it is not taken.
        if self.shorts.is_multiple_of(5) {
            return false;
        }
        let ([rdi, ..], [rax, 0]) = (call.arguments, call.results) else {
            panic!("rdx was not recorded: {call:?}");
        };
        let expected = (STACK, value(call.began), value(call.ended), [0; 5]);
        let others: [u64; 5] = call.arguments[1..].try_into().expect("five");
        assert_eq!((call.frame(), rdi, rax, others), expected);
        let of = &mut self.all[call.ring as usize];
        of.push((call.began - self.origin, true, 0));
        of.push((call.ended - self.origin, false, 0));
        true
    }
}

#[test]
fn both_ways_hand_on_every_record_once_and_in_the_order_of_its_ring() {
    let memory = Arc::new(GuestMemory::open(std::process::id() as i32).expect("our own memory"));
    let mut random = Random(0x77aa_1234_8642_0f0f);
    let mut image = Image::new();
    let origin = now();
    let open = |session| Rings::open(memory.clone(), None, image.words.as_ptr() as u64, session);
    let mut rings = open(1).expect("an image");
    let mut all: [Vec<Seen>; RINGS] = Default::default();
    let mut expected = all.clone();
    let (mut ticks, mut rest, mut shorts) = (0, Vec::new(), 0);
    for turn in 0..2000 {
        let mut in_turn = 0;
        for _ in 0..random.next() % 16 {
            let ring = random.next() as usize % RINGS;
            let (what, more) = match random.next() % 3 {
                0 => (kind::ENTRY, 0),
                1 => (kind::ENTRY, random.next() % 9),
                _ => (kind::RETURN, random.next() % 9),
            };
            ticks += 1;
            in_turn += 1;
            image.write(ring, what, &written(what, origin + ticks, more));
            expected[ring].push((ticks, what == kind::ENTRY, more as usize));
            if (what, more) != (kind::ENTRY, 0) {
                continue;
            }
            image.write(ring, kind::ROOM, &[0, 0]);
            // What the ring holds now may be read before the call returns, also by who has just seen more reserved: the rest was
            // given back.
            if random.next().is_multiple_of(2) {
                image.reserve(ring, random.next() % 40);
                let (all, shorts) = (&mut all, &mut shorts);
                let mut note = Note {
                    all,
                    origin,
                    shorts,
                };
                rings
                    .for_each_of_ring(1 << 20, &mut note)
                    .expect("our own memory");
                image.reserve(ring, 0);
            }
            if random.next().is_multiple_of(2) {
                ticks += 1;
                image.fill(
                    ring,
                    ticks - expected[ring].last().expect("a call").0,
                    origin + ticks,
                );
                expected[ring].push((ticks, false, 0));
            }
        }
        let (all, shorts) = (&mut all, &mut shorts);
        let mut note = Note {
            all,
            origin,
            shorts,
        };
        if turn % 3 == 0 {
            // Some of it waits, and is handed on by the other way.
            rings.fill(64).expect("our own memory");
            for _ in 0..in_turn / 2 {
                if let Some(event) = rings.next(&mut rest) {
                    note.event(event, &rest);
                }
            }
        }
        while rings
            .for_each_of_ring(24, &mut note)
            .expect("our own memory")
        {}
    }
    assert_eq!(all, expected);
    // The agent finds all room given back.
    for ring in 0..RINGS {
        let taken = Image::header(ring) + offset_of!(Ring, taken) / 8;
        let taken = std::hint::black_box(&image.words)[taken];
        assert_eq!(taken, image.written[ring], "{ring}");
    }
    assert!(ticks > 10_000 && shorts > 1000, "{ticks} {shorts}");
}
