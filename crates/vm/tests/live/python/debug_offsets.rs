//! The tables taken away: what a Python says of its own layout leads to the same frames, or to none.

use vm::python::{Error, Facts, Frame, Python};
use vm::{Fault, Memory};

use super::guest::{Guest, each_build};
use crate::process::ProcessMemory;

/// Words of `_Py_DebugOffsets` that are changed, one at a time, from the first that is not compared with a constant.
const CHANGED: std::ops::Range<u64> = 3..120;

/// The memory of a process in which one word is another one.
struct Changed<'a> {
    rest: &'a ProcessMemory,
    at: u64,
    word: u64,
}

impl Memory for Changed<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.rest.read(at, into)?;
        let word = self.word.to_le_bytes();
        for (byte, at) in into.iter_mut().zip(at..) {
            if let Some(other) = word.get(at.wrapping_sub(self.at) as usize) {
                *byte = *other;
            }
        }
        Ok(())
    }
}

/// The frames of a thread, each with its file, line and name; `None` = one of them could not be read.
type Frames = Option<Vec<[String; 3]>>;

/// The frames of all threads, by thread.
fn frames(python: &Python<'_, impl Memory>) -> Vec<(u64, Frames)> {
    let threads = python.all_threads().map(|thread| thread.expect("a thread"));
    let frames = |state: u64| {
        let frames = python.frames(state).map(|frame| told(python, &frame.ok()?));
        frames.collect()
    };
    threads.map(|one| (one.id, frames(one.address))).collect()
}

/// Whether the frames of a thread stay what they are until the guest is resumed. One that computes is not where it was a moment ago, or
/// between two frames.
fn stays((_, frames): &(u64, Frames)) -> bool {
    let computes = |frame: &[String; 3]| frame[2].starts_with("computes");
    frames
        .as_ref()
        .is_some_and(|frames| !frames.iter().any(computes))
}

/// What this reader says of the threads that stay where they are, and what the reader by the table says of them at the same time: the guest may
/// still be on its way to where it waits.
fn both(guest: &Guest, python: &Python<'_, impl Memory>) -> [Vec<(u64, Frames)>; 2] {
    let by_table = || -> Vec<(u64, Frames)> {
        let all = frames(&guest.python());
        all.into_iter().filter(stays).collect()
    };
    loop {
        let truth = by_table();
        let mut found = frames(python);
        if by_table() == truth {
            found.retain(|(id, _)| truth.iter().any(|(known, _)| known == id));
            return [found, truth];
        }
    }
}

fn told(python: &Python<'_, impl Memory>, frame: &Frame) -> Option<[String; 3]> {
    let code = frame.point.code;
    let [mut file, mut name] = [String::new(), String::new()];
    python
        .write_text(python.file(code).ok()?, 4096, &mut file)
        .ok()?;
    python
        .write_text(python.function_name(code).ok()?, 4096, &mut name)
        .ok()?;
    let line = python.line(frame.point).ok()?;
    Some([file, format!("{line:?}"), name])
}

/// How many threads run something.
fn running(guest: &Guest) -> usize {
    let all = frames(&guest.python());
    all.iter()
        .filter(|(_, frames)| frames.as_ref() != Some(&Vec::new()))
        .count()
}

/// Changes each word in turn. Returns how many changes were not refused, and how many were: those must lead to the true frames. Lines are
/// counted from the line on which the code begins, which no other word can contradict: source text does, and the tests of
/// `languages::frames::evidence` change that line.
fn believed(version: &str, guest: &Guest) -> (usize, usize) {
    let symbols = guest.symbols();
    let symbol = |name: &str| symbols.address(name);
    let runtime = guest.facts.runtime();
    let first_line = guest.python().layout().code.first_line;
    let (mut believed, mut refused) = (0, 0);
    for number in CHANGED {
        let at = runtime + number * 8;
        let word = |at| guest.memory.u64(at).expect("a word");
        let (true_word, neighbour) = (word(at), word(at + 8));
        let others = [8, 8_u64.wrapping_neg(), neighbour.wrapping_sub(true_word)];
        for word in others.map(|by| true_word.wrapping_add(by)) {
            let memory = Changed {
                rest: &guest.memory,
                at,
                word,
            };
            let Ok((facts, _)) = Facts::by_debug_offsets(&memory, &symbol) else {
                refused += 1;
                continue;
            };
            let python = Python::new(&memory, facts).expect("it was read");
            let [mut found, mut truth] = both(guest, &python);
            if python.layout().code.first_line != first_line {
                let all = found.iter_mut().chain(&mut truth);
                for frame in all.flat_map(|(_, frames)| frames.iter_mut().flatten()) {
                    frame[1].clear();
                }
            }
            assert_eq!(found, truth, "{version}: word {number} as {word}");
            believed += 1;
        }
    }
    (believed, refused)
}

#[test]
fn a_python_is_read_as_it_describes_itself_or_not_at_all() {
    each_build(include_str!("frames.py"), |version, guest| {
        let symbols = guest.symbols();
        let symbol = |name: &str| symbols.address(name);
        let mut points = 0;
        while guest.lines != ["END"] {
            let before = running(guest);
            let told = Facts::by_debug_offsets(&guest.memory, &symbol);
            if guest.facts.version().minor < 13 {
                assert!(matches!(told, Err(Error::Garbled { .. })), "{version}");
                return;
            }
            // One that computes may be between two frames.
            if let Ok((facts, proven)) = told {
                let python = Python::new(&guest.memory, facts).expect("it was read");
                let [by_itself, by_table] = both(guest, &python);
                assert_eq!(by_itself, by_table, "{version}");
                // Those that begin and end meanwhile are counted or not.
                let is_same = running(guest) == before;
                assert!(!is_same || proven.threads as usize == before, "{version}");
                points += 1;
                if points == 1 {
                    let (harmless, refused) = believed(version, guest);
                    println!(
                        "python {version}: {harmless} of the changes are not refused, and do no harm; {refused} are"
                    );
                    // At least those of each word that is used.
                    assert!(refused >= 40, "{version}: {refused}");
                }
            }
            guest.resume();
        }
        println!("python {version}: {points} points");
        assert!(points >= 10, "{version}: {points}");
    });
}
