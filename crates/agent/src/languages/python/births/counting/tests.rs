//! What is counted where memory is short.

use super::*;
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

/// The books of a Python with a thread that runs no code.
struct Office {
    births: Box<Births>,
    ledger: Box<Ledger>,
    state: Box<[u64; 64]>,
}

impl Office {
    fn new() -> Self {
        bound::allow(u64::MAX);
        let mut words = [0; Facts::WORDS];
        words[0] = Version::new(3, 9, 0).packed();
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
