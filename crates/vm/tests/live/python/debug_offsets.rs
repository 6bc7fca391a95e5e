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

/// The frames of all threads, by thread, each with its file, line and name.
fn frames(python: &Python<'_, impl Memory>) -> Vec<(u64, Vec<[String; 3]>)> {
    let threads = python.all_threads().map(|thread| thread.expect("a thread"));
    let frames = |state: u64| {
        let frames = python.frames(state).map(|frame| frame.expect("a frame"));
        frames.map(|frame| told(python, &frame)).collect()
    };
    threads.map(|one| (one.id, frames(one.address))).collect()
}

fn told(python: &Python<'_, impl Memory>, frame: &Frame) -> [String; 3] {
    let code = frame.point.code;
    let [mut file, mut name] = [String::new(), String::new()];
    let text = python.file(code).expect("a file");
    python.write_text(text, 4096, &mut file).expect("its text");
    let text = python.function_name(code).expect("a name");
    python.write_text(text, 4096, &mut name).expect("its text");
    let line = python.line(frame.point).expect("a line");
    [file, format!("{line:?}"), name]
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
            // The guest may still be on its way to where it waits.
            let (mut found, mut truth) = loop {
                let truth = frames(&guest.python());
                let found = frames(&python);
                if frames(&guest.python()) == truth {
                    break (found, truth);
                }
            };
            if python.layout().code.first_line != first_line {
                for frame in found.iter_mut().chain(&mut truth).flat_map(|of| &mut of.1) {
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
            let told = Facts::by_debug_offsets(&guest.memory, &symbol);
            if guest.facts.version().minor < 13 {
                assert!(matches!(told, Err(Error::Garbled { .. })), "{version}");
                return;
            }
            // One that computes is not where it was a moment ago.
            if let Ok((facts, proven)) = told {
                let python = Python::new(&guest.memory, facts).expect("it was read");
                let (by_table, by_itself) = (frames(&guest.python()), frames(&python));
                let again = frames(&guest.python());
                if by_table == again {
                    assert_eq!(by_itself, by_table, "{version}");
                    let running = by_table.iter().filter(|(_, frames)| !frames.is_empty());
                    assert_eq!(proven.threads as usize, running.count(), "{version}");
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
            }
            guest.resume();
        }
        println!("python {version}: {points} points");
        assert!(points >= 10, "{version}: {points}");
    });
}
