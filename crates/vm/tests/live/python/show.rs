//! Objects as text against `repr`, and the same over memory that is damaged.

use vm::python::{Convention, Limits, Python};
use vm::{Fault, Memory};

use super::guest::each_version;
use crate::guest::ProcessMemory;

const CONVENTIONS: [Convention; 8] = [
    Convention::Tuple,
    Convention::TupleKeywords,
    Convention::Fast,
    Convention::FastKeywords,
    Convention::Method,
    Convention::None,
    Convention::One,
    Convention::Slot,
];

#[test]
fn objects_are_shown_as_repr_shows_them() {
    each_version(include_str!("show.py"), |version, guest| {
        let python = guest.python();
        let limits = Limits::default();
        let (mut objects, mut calls) = (0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            let mut found = String::new();
            let expected = match parts[..] {
                ["object", address, expected] => {
                    objects += 1;
                    let address = address.parse().expect("an address");
                    python
                        .write_object(address, &limits, &mut found)
                        .unwrap_or_else(|why| panic!("python {version}: {line}: {why}"));
                    expected
                }
                ["call", convention, registers, expected] => {
                    calls += 1;
                    let registers: Vec<u64> = registers
                        .split(',')
                        .map(|register| register.parse().expect("a number"))
                        .collect();
                    let convention = CONVENTIONS
                        .into_iter()
                        .find(|known| format!("{known:?}") == convention)
                        .expect(line);
                    let registers = registers.try_into().expect("five");
                    python
                        .write_arguments(convention, registers, &limits, &mut found)
                        .unwrap_or_else(|why| panic!("python {version}: {line}: {why}"));
                    expected
                }
                _ => panic!("{line}"),
            };
            assert_eq!(found, expected, "python {version}: {line}");
        }
        println!("python {version}: {objects} objects, {calls} calls");
        assert!(objects > 120 && calls > 12, "{version}: {objects}, {calls}");
    });
}

/// A process's memory with one word in so many made another.
struct Damaged<'a> {
    memory: &'a ProcessMemory,
    seed: u64,
    rarity: u64,
    /// What is spared: where the process says how it is laid out.
    runtime: u64,
}

impl Memory for Damaged<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, into)?;
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.wrapping_add(offset as u64);
            let mut mixed = ((at / 8) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 31;
            let spared = at.wrapping_sub(self.runtime) < 1024;
            if !spared && mixed.is_multiple_of(self.rarity) {
                *byte ^= mixed.to_le_bytes()[(at % 8) as usize];
            }
        }
        Ok(())
    }
}

#[test]
fn damage_is_survived() {
    each_version(include_str!("show.py"), |version, guest| {
        let (mut errors, mut answers) = (0, 0);
        for seed in 0..60 {
            let memory = Damaged {
                memory: &guest.memory,
                seed,
                rarity: [10, 50, 250, 1000][seed as usize % 4],
                runtime: guest.facts.runtime(),
            };
            // Facts of the sound process, so that the damage is met further in.
            let python = Python::new(&memory, guest.facts).expect("a known version");
            let mut count = |good: bool| *if good { &mut answers } else { &mut errors } += 1;
            for thread in python.all_threads().take(10) {
                let Ok(thread) = thread else { continue };
                count(python.point(thread.address).is_ok());
                for frame in python.frames(thread.address).take(100).flatten() {
                    count(python.line(frame.point).is_ok());
                    count(python.file(frame.point.code).is_ok());
                }
            }
            for name in ["time.sleep", "deque.append", "len"] {
                count(python.function(name).is_ok());
            }
            for line in &guest.lines {
                if let Some(address) = line
                    .strip_prefix("object\t")
                    .and_then(|rest| rest.split('\t').next()?.parse().ok())
                {
                    let mut out = String::new();
                    let shown = python.write_object(address, &Limits::default(), &mut out);
                    count(shown.is_ok());
                    assert!(out.len() < 100_000, "python {version}: {}", out.len());
                }
            }
        }
        assert!(
            errors > 20 && answers > 1000,
            "{version}: {errors}, {answers}"
        );
        println!("python {version}: {answers} answers, {errors} errors");
    });
}
