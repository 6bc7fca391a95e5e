//! Values as text against `inspect`, and the same over memory that is damaged.

use vm::ruby::{Convention, Limits, Ruby};
use vm::{Fault, Memory};

use crate::functions::Still;
use crate::guest::{each_version, hex};

const CONVENTIONS: [Convention; 6] = [
    Convention::Array,
    Convention::Arguments,
    Convention::Fixed(0),
    Convention::Fixed(2),
    Convention::Fixed(5),
    Convention::Fixed(7),
];

/// Where an embedded Array has its first element.
const ELEMENT: u64 = 16;

#[test]
fn values_are_shown_as_inspect_shows_them() {
    each_version(include_str!("show.rb"), |version, guest| {
        let symbols = guest.facts.symbols();
        guest.resume();
        assert_eq!(guest.facts.symbols(), symbols, "ruby {version}: it moved");
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let limits = Limits::default();
        let (mut values, mut calls) = (0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            let mut found = String::new();
            let expected = match parts[..] {
                ["value", point, expected] => {
                    values += 1;
                    let value = guest.memory.u64(hex(point) + ELEMENT).expect("an element");
                    ruby.write_value(value, &limits, &mut found)
                        .unwrap_or_else(|why| panic!("ruby {version}: {line}: {why}"));
                    expected
                }
                ["call", convention, registers, expected] => {
                    calls += 1;
                    let registers: Vec<u64> = registers
                        .split(',')
                        .map(|word| match word.strip_prefix("0x") {
                            Some(_) => hex(word),
                            None => word.parse().expect("a number"),
                        })
                        .collect();
                    let convention = CONVENTIONS
                        .into_iter()
                        .find(|known| format!("{known:?}") == convention)
                        .expect(line);
                    let registers = registers.try_into().expect("six");
                    ruby.write_arguments(convention, registers, &limits, &mut found)
                        .unwrap_or_else(|why| panic!("ruby {version}: {line}: {why}"));
                    expected
                }
                _ => panic!("{line}"),
            };
            assert_eq!(found, expected, "ruby {version}: {line}");
        }
        println!("ruby {version}: {values} values, {calls} calls");
        assert!(values > 180 && calls > 9, "{version}: {values}, {calls}");
    });
}

/// A process's memory with one word in so many made another.
struct Damaged<'a> {
    memory: &'a Still<'a>,
    seed: u64,
    rarity: u64,
}

impl Memory for Damaged<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, into)?;
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.wrapping_add(offset as u64);
            let mut mixed = ((at / 8) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 31;
            if mixed.is_multiple_of(self.rarity) {
                *byte ^= mixed.to_le_bytes()[(at % 8) as usize];
            }
        }
        Ok(())
    }
}

#[test]
fn damage_is_survived() {
    each_version(include_str!("show.rb"), |version, guest| {
        guest.resume();
        let still = Still::new(&guest.memory);
        let points: Vec<u64> = guest
            .lines
            .iter()
            .filter_map(|line| Some(hex(line.strip_prefix("value\t")?.split('\t').next()?)))
            .collect();
        let (mut errors, mut answers) = (0, 0);
        for seed in 0..60 {
            let memory = Damaged {
                memory: &still,
                seed,
                rarity: [10, 50, 250, 1000][seed as usize % 4],
            };
            // Facts of the sound process, so that the damage is met further in.
            let ruby = Ruby::new(&memory, guest.facts).expect("a known version");
            let mut count = |good: bool| *if good { &mut answers } else { &mut errors } += 1;
            for name in [
                "String#upcase",
                "Process.clock_gettime",
                "Outer::Pair#a",
                "sleep",
            ] {
                count(ruby.function(name).is_ok());
            }
            for &point in &points {
                let value = still.u64(point + ELEMENT).expect("an element");
                let mut out = String::new();
                count(
                    ruby.write_value(value, &Limits::default(), &mut out)
                        .is_ok(),
                );
                assert!(out.len() < 100_000, "ruby {version}: {}", out.len());
            }
        }
        println!("ruby {version}: {answers} answers, {errors} errors");
        assert!(
            errors > 100 && answers > 1000,
            "{version}: {errors}, {answers}"
        );
    });
}
