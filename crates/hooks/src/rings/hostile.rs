//! Tests with rings of arbitrary words, as a malicious guest could write: reading them ends, without a panic and within
//! bounds. Used by `ways`.
//!
//! The guest is this process, so addresses of headers stay within a buffer of the test, which the reader writes to.

use super::{Events, RingEvent, Rings, ShortCall};
use crate::limits::{MOST_LINE_BYTES, MOST_LINES};
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::sync::Arc;
use wire::calls::{self, Calls, Ring};

/// Numbers that look random (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number of the kind that breaks a reader: small, near a power of two, near the end, or any.
    fn nasty(&mut self) -> u64 {
        let (shift, near) = (self.next() % 64, self.next() % 5);
        match self.next() % 4 {
            0 => near,
            1 => (1u64 << shift).wrapping_add(near).wrapping_sub(2),
            2 => u64::MAX - near * 8,
            _ => self.next(),
        }
    }
}

/// Counts what it is handed, and refuses every second short call.
struct Count(u64);

impl Events for Count {
    fn event(&mut self, _: RingEvent, _: &[u64]) {
        self.0 += 1;
    }

    fn short(&mut self, _: &ShortCall) -> bool {
        self.0 += 1;
        self.0.is_multiple_of(2)
    }
}

const RINGS: usize = 4;
const WORDS: usize = 512;

/// An image of what the agent keeps: [`Calls`], then headers of rings a page apart, then their records.
struct Image {
    words: Vec<u64>,
}

impl Image {
    fn new(random: &mut Random) -> Self {
        let calls = size_of::<Calls>().div_ceil(8);
        let page = wire::PAGE / 8;
        let mut words = vec![0; calls + RINGS * page + RINGS * WORDS];
        let at = words.as_ptr() as u64;
        let address = |word: usize| at + word as u64 * 8;
        words[offset_of!(Calls, made) / 8] = 1;
        for number in 0..RINGS {
            let (header, records) = (calls + number * page, calls + RINGS * page + number * WORDS);
            words[offset_of!(Calls, rings) / 8 + number] = address(header);
            for word in &mut words[header..header + size_of::<Ring>() / 8] {
                *word = random.nasty();
            }
            // Seven words in eight are as they should be, so that the reader comes to the next.
            for (offset, good) in [
                (offset_of!(Ring, records), address(records)),
                (offset_of!(Ring, size), WORDS as u64 * 8),
                (offset_of!(Ring, taken), 0),
                (offset_of!(Ring, written.reserved), random.next() % 64),
                (offset_of!(Ring, counts), 0),
            ] {
                if !random.next().is_multiple_of(8) {
                    words[header + offset / 8] = good;
                }
            }
            let mut position = 0;
            while position < WORDS {
                let (length, what) = (1 + random.next() % 24, random.next() % 12);
                words[records + position] = calls::header(length, what, position as u64);
                let end = (position + length as usize).min(WORDS);
                for word in &mut words[records + position + 1..records + end] {
                    *word = random.nasty();
                }
                position = end;
            }
        }
        Image { words }
    }

    fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }
}

/// Lines without end: as many are kept as there may be, the others are counted.
#[test]
fn lines_are_bounded_and_those_that_are_not_kept_are_counted() {
    let memory = Arc::new(GuestMemory::open(std::process::id() as i32).expect("our own memory"));
    let mut random = Random(0x5555_aaaa_1234_9876);
    let image = Image::new(&mut random);
    let mut rings = Rings::open(memory, None, image.address(), 1).expect("an image");
    let more = 1000;
    for number in 0..MOST_LINES as u32 + more {
        let line = super::Line {
            path: "a.rb".into(),
            line: number,
            name: String::new(),
        };
        rings.learn_line(0, number, line);
    }
    assert_eq!(rings.places().len(), MOST_LINES);
    assert_eq!(rings.lines_lost, u64::from(more));
    // Texts count too.
    let long = super::Line {
        path: "x".repeat(MOST_LINE_BYTES as usize),
        line: 1,
        name: String::new(),
    };
    rings.learn_line(0, 1, long);
    assert_eq!(rings.lines_lost, u64::from(more) + 1);
}

#[test]
fn any_image_is_read_to_its_end() {
    let memory = Arc::new(GuestMemory::open(std::process::id() as i32).expect("our own memory"));
    let mut random = Random(0x1a2b_3c4d_5e6f_7788);
    let mut events = 0;
    for _ in 0..400 {
        let mut image = Image::new(&mut random);
        let Ok(mut rings) = Rings::open(memory.clone(), None, image.address(), 1) else {
            continue;
        };
        // What was written before the session is passed over; now there is more, of any kind.
        let calls = size_of::<Calls>().div_ceil(8);
        for number in 0..RINGS {
            let header = calls + number * wire::PAGE / 8;
            let reserved = match random.next() % 8 {
                0 => random.nasty(),
                1 => random.next() % (2 * WORDS as u64),
                _ => WORDS as u64,
            };
            let word = header + offset_of!(Ring, written.reserved) / 8;
            image.words[word] = std::hint::black_box(reserved);
        }
        let mut rest = Vec::new();
        for _ in 0..8 {
            // An error is an answer too.
            let _ = rings.look();
            if random.next().is_multiple_of(2) {
                let mut count = Count(0);
                let _ = rings.for_each_of_ring(64, &mut count);
                events += count.0;
                continue;
            }
            let _ = rings.fill(64);
            while rings.next(&mut rest).is_some() {
                events += 1;
            }
        }
        let _ = (rings.counted(), rings.losses().map(|losses| losses.sum()));
        let _ = rings.ranges();
    }
    assert!(events > 100, "the images are read at all: {events}");
}
