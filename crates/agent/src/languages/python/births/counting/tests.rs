//! What is counted where memory is short.

use super::*;
use crate::births::books::site_at;
use crate::languages::python::births::names::OBJECT;
use crate::memory::bound;
use crate::shared::EMPTY;
use std::boxed::Box;
use std::vec::Vec;
use vm::python::{Facts, Python, Version};

/// Two blocks of one page, and blocks of pages of their own.
const ONE: u64 = 0x7f12_3450_0010;
const OTHER: u64 = 0x7f12_3450_1230;
const FAR: u64 = 0x7f12_3460_0000;
const FARTHER: u64 = 0x7f12_5000_0000;

/// The books of a Python with a thread that runs no code, unless a test makes some.
struct Office {
    births: Box<Births>,
    ledger: Box<Ledger>,
    state: Box<[u64; 64]>,
}

/// What is counted: births of each site, sizes that were taken of the first one, and the living.
#[derive(Debug, PartialEq, Eq)]
struct CountedHere {
    births: Vec<(u32, u64)>,
    measured: (u32, u64),
    living: Vec<u64>,
}

impl Office {
    fn new() -> Self {
        Office::of(Version::new(3, 9, 0))
    }

    fn of(version: Version) -> Self {
        bound::allow(u64::MAX);
        let mut words = [0; Facts::WORDS];
        words[0] = version.packed();
        let reader =
            Python::new(&Direct, Facts::from_words(words)).expect("a version that is known");
        let mut office = Office {
            births: Box::new(Births::new(Names::new())),
            ledger: Box::new(EMPTY),
            state: Box::new([0; 64]),
        };
        office.births.names.reader = Some(reader);
        office.births.open(&mut office.ledger).expect("memory");
        office
    }

    fn state(&self) -> u64 {
        self.state.as_ptr().expose_provenance() as u64
    }

    /// A birth of a type, as `taken` notes it; whether it is noted.
    fn born(&mut self, kind: u64, at: u64, size: u64) -> bool {
        let state = self.state();
        let (births, ledger) = (&mut self.births, &mut self.ledger);
        let is_noted =
            births.full.is_none() && births.born(ledger, state, kind, (at, size)).is_some();
        if !is_noted {
            births.lose(ledger, state, kind, at);
        }
        is_noted
    }

    /// A birth where line and page were seen just now; whether it is noted.
    fn born_again(&mut self, kind: u64, at: u64, size: u64) -> bool {
        let state = self.state();
        let key = self.births.key(state, kind).expect("a key");
        self.births.counts_in_passing() && self.births.born_again(&mut self.ledger, key, at, size)
    }

    fn counted(&self) -> CountedHere {
        let mut births = Vec::new();
        let each = |site, born| births.push((site, born));
        self.births.books.each_entry(each);
        let first = site_at(&self.ledger.sites, 1);
        CountedHere {
            births,
            measured: (first.measured, first.measured_bytes),
            living: self.sizes(),
        }
    }

    /// Has no more memory, and uses up what is mapped; the last birth is not noted.
    fn fill(&mut self) {
        bound::allow(0);
        let mut pages = (FAR..).step_by(1 << 16).take(64);
        assert!(pages.any(|at| !self.born(OBJECT, at, 0)));
        assert!(self.births.full.is_some());
    }

    fn sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        self.births.blocks.each(|_, size| sizes.push(size));
        sizes.retain(|size| *size != 0);
        sizes
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.births.forget(&mut self.ledger);
    }
}

/// A list that grows is moved, or has another size where it was; when there is no memory for its birth it lives all the same.
#[test]
fn what_is_moved_without_memory_is_not_dead() {
    let mut office = Office::new();
    assert!(office.born(OBJECT, ONE, 100));
    office.fill();
    for (from, to, size) in [(ONE, ONE, 200), (ONE, OTHER, 300)] {
        let known = office.births.blocks.dead(from).expect("it is noted");
        assert!(office.births.keep(&mut office.ledger, to, size, known));
        assert_eq!(office.sizes(), [size]);
    }
    let known = office.births.blocks.dead(OTHER).expect("it is noted");
    let kept = office.births.keep(&mut office.ledger, FARTHER, 400, known);
    assert!(!kept, "its page has no table");
    assert_eq!(office.sizes(), []);
}

#[test]
fn without_records_for_a_new_line_the_others_are_counted_on() {
    let mut office = Office::new();
    assert!(office.born(OBJECT, ONE, 100));
    let length = office.ledger.sites.length;
    office.ledger.sites.length = wire::ledger::SITES * wire::ledger::PIECES as u64;
    assert!(!office.born(OBJECT + 1, OTHER, 1), "a new line");
    office.ledger.sites.length = length;
    assert_eq!(office.ledger.lost_memory, 1);
    assert!(office.born(OBJECT, OTHER, 2), "one that is known");
}

#[test]
fn births_are_noted_again_when_there_is_memory_again() {
    let mut office = Office::new();
    assert!(office.born(OBJECT, ONE, 100));
    office.fill();
    office.births.try_again();
    assert!(!office.born(OBJECT, OTHER, 1), "not yet");
    bound::allow(1 << 30);
    office.births.try_again();
    assert!(office.born(OBJECT, FARTHER, 1));
    assert_eq!(office.ledger.lost_memory, 2);
}

/// The addresses of blocks of one page.
fn blocks() -> impl Iterator<Item = u64> {
    (ONE..).step_by(32).take(200)
}

#[test]
fn what_was_seen_just_now_is_counted_as_all_else_is() {
    let (mut one, mut other) = (Office::new(), Office::new());
    for (number, at) in blocks().enumerate() {
        let size = number as u64 * 7;
        assert!(one.born(OBJECT, at, size));
        let is_again = other.born_again(OBJECT, at, size);
        assert_eq!(is_again, number > 0, "the first one is a new line");
        assert!(is_again || other.born(OBJECT, at, size));
    }
    assert_eq!(one.counted(), other.counted());
    assert_eq!(one.sizes().len(), 199, "one has no size");
}

/// What is more than to count a birth at a line and to note a small block at an empty place is left to the function that does all.
#[test]
fn what_is_more_than_to_count_is_not_done_in_passing() {
    let mut office = Office::new();
    assert!(office.born(OBJECT, ONE, 100));
    assert!(office.born(OBJECT, FAR, 200));
    let before = office.counted();
    let refused = |office: &mut Office, at, size, why| {
        assert!(!office.born_again(OBJECT, at, size), "{why}");
        assert_eq!(office.counted(), before, "{why}");
    };
    refused(&mut office, ONE, 1, "the death of a block was not seen");
    refused(&mut office, OTHER, 1 << 31, "the size is listed");
    refused(&mut office, OTHER + 8, 1, "no block is there");
    refused(&mut office, FARTHER, 1, "a page that is new");
    assert!(
        !office.born_again(OBJECT + 1, OTHER, 1),
        "a line that is new"
    );
    assert_eq!(office.births.blocks.own(OTHER), Some(()));
    refused(&mut office, OTHER, 1, "lines are cached under its address");
    office.births.depth = 2;
    assert!(!office.births.counts_in_passing(), "call paths");
    office.births.depth = 1;
    assert!(office.born_again(OBJECT, ONE + 32, 1));
    office.fill();
    assert!(!office.born_again(OBJECT, ONE + 64, 1), "no memory");
}

#[test]
fn the_command_is_looked_for_after_so_many_births() {
    let mut office = Office::new();
    assert!(office.born(OBJECT, FAR, 100));
    let counts = |office: &Office| office.births.presence.until_look;
    let begun = counts(&office);
    assert!(office.born_again(OBJECT, ONE, 1) || office.born(OBJECT, ONE, 1));
    assert!(office.born_again(OBJECT, OTHER, 1));
    assert_eq!(counts(&office), begun - 1);
    office.births.presence.until_look = 1;
    assert!(office.born_again(OBJECT, ONE + 64, 1));
    assert_eq!(counts(&office), LOOK_EVERY);
}

/// A generator's frame is complete before its first traceable instruction, and that of the function that makes it is not: a block that is
/// taken there is the caller's. Who asks only for code and instruction must not find the generator's line.
#[test]
fn a_point_of_a_generator_is_none_of_another_frame() {
    let mut office = Office::of(Version::new(3, 11, 2));
    let [mut cframe, mut inner, mut outer] = [[0u64; 16]; 3];
    let (code, other_code) = (Box::new([0u64; 64]), Box::new([0u64; 64]));
    let address = |words: &[u64]| words.as_ptr().expose_provenance() as u64;
    // `co_code_adaptive` lies at 184, and the first traceable instruction is the first one of the outer code.
    let [begin, other_begin] = [&code, &other_code].map(|code| address(&code[..]) + 184);
    let mut code = code;
    code[168 / 8] = 4;
    outer[32 / 8] = address(&other_code[..]);
    outer[56 / 8] = other_begin + 8;
    inner[48 / 8] = address(&outer);
    inner[32 / 8] = address(&code[..]);
    inner[56 / 8] = begin + 2;
    // `owner` is byte 69: FRAME_OWNED_BY_GENERATOR.
    inner[64 / 8] = 1 << 40;
    cframe[1] = address(&inner);
    office.state[56 / 8] = address(&cframe);
    let of = |office: &mut Office| {
        let state = office.state();
        office.births.key(state, OBJECT).expect("a key")
    };
    let of_generator = of(&mut office);
    assert_eq!(of_generator.code, address(&code[..]));
    assert!(office.born(OBJECT, ONE, 1));
    assert!(office.born(OBJECT, OTHER, 1));
    // What is read of the frame without asking whose it is.
    let read = Key {
        pc: 2,
        ..of_generator
    };
    let (births, ledger) = (&mut office.births, &mut office.ledger);
    assert!(!births.born_again(ledger, read, ONE + 32, 1));
    // The same frame, of the function that makes the generator.
    inner[64 / 8] = 0;
    assert_eq!(cframe[1], address(&inner));
    assert_eq!(of(&mut office).code, address(&other_code[..]));
}
