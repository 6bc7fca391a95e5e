//! A test of one integer register that decides most of a condition: a hook makes it before it saves anything else. Used
//! by `calls::conditions`.

use crate::condition::{self, Relation};

/// Where the number in a register must lie for the rest of the condition to be looked at: the register shifted to the
/// left by `left` bits, minus `low`, as an unsigned number must be at most `span`; if `outside`, more than `span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Number of the integer argument register; 0 is rdi.
    pub register: u8,
    /// Bits by which the number is shifted, to the upper end of the word. That drops what lies above it in the
    /// register, and signed and unsigned numbers are then compared alike.
    pub left: u8,
    /// The lower end of the range, shifted by `left`.
    pub low: u64,
    /// The width of the range, shifted by `left`.
    pub span: u64,
    /// Whether the number must lie outside of the range.
    pub outside: bool,
}

impl Range {
    /// Returns the test of a condition's first step, if that compares an integer register and the condition is false
    /// where it is not met.
    pub fn of(words: &[u64]) -> Option<Self> {
        let (register, width, relation, with) = condition::decided_first(words)?;
        let bits = u32::from(width.bytes) * 8;
        // What lies below the number would be compared with it.
        if width.skip != 0 || !matches!(bits, 8 | 16 | 32 | 64) {
            return None;
        }
        let all = 1i128 << bits;
        let (least, with) = if width.signed {
            (-(all / 2), i128::from(with.cast_signed()))
        } else {
            (0, i128::from(with))
        };
        let most = least + all - 1;
        let (first, last, outside) = match relation {
            Relation::Equal => (with, with, false),
            Relation::NotEqual => (with, with, true),
            Relation::Less => (least, with - 1, false),
            Relation::LessOrEqual => (least, with, false),
            Relation::Greater => (with + 1, most, false),
            Relation::GreaterOrEqual => (with, most, false),
        };
        let (first, last) = (first.max(least), last.min(most));
        // No number is there: whatever is not in the whole of them.
        let (first, last, outside) = if first > last {
            (least, most, !outside)
        } else {
            (first, last, outside)
        };
        let left = 64 - bits;
        Some(Range {
            register,
            left: left as u8,
            low: (first as u64) << left,
            span: ((last - first) as u64) << left,
            outside,
        })
    }

    /// Returns whether a register that holds `word` passes the test.
    pub fn meets(&self, word: u64) -> bool {
        ((word << self.left).wrapping_sub(self.low) <= self.span) != self.outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Facts, Kind, Operand, Step, holds};
    use crate::op::{Source, Width};
    use crate::run::Registers;

    extern crate std;
    use std::vec::Vec;

    const NUMBERS: [u64; 22] = [
        0,
        1,
        2,
        5,
        0x7f,
        0x80,
        0xff,
        0x100,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        0xffff_ffff_8000_0000,
        0xffff_ffff_ffff_8000,
        0xffff_ffff_ffff_ff80,
        u64::MAX - 1,
        u64::MAX,
    ];
    const RELATIONS: [Relation; 6] = [
        Relation::Equal,
        Relation::NotEqual,
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
    ];

    fn words(steps: &[Step]) -> Vec<u64> {
        let mut words = Vec::new();
        for step in steps {
            step.encode(|word| words.push(word));
        }
        words
    }

    fn number(register: u8, width: Width, relation: Relation, with: u64) -> Step<'static> {
        let place = Operand::Of(Source::Gp(register));
        Step::Number(place, Kind::Integer(width), relation, with)
    }

    #[test]
    fn it_decides_as_the_condition_does() {
        for bytes in [1, 2, 4, 8] {
            for signed in [false, true] {
                let skip = 0;
                let width = Width {
                    bytes,
                    signed,
                    skip,
                };
                for relation in RELATIONS {
                    for with in NUMBERS {
                        let words = words(&[number(3, width, relation, with)]);
                        let range = Range::of(&words).expect("a range");
                        for word in NUMBERS {
                            let mut registers = Registers::default();
                            registers.gp[3] = word;
                            let facts = Facts {
                                registers: &registers,
                                returned: None,
                                elapsed: 0,
                                lines: 0,
                            };
                            assert_eq!(
                                range.meets(word),
                                holds(&words, facts, |_, _| 0),
                                "{width:?} {relation:?} {with:#x}: {word:#x}, {range:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_alone_makes_it_false_is_asked_first() {
        let first = number(0, Width::WORD, Relation::Equal, 3);
        let other = number(1, Width::WORD, Relation::Equal, 4);
        let is_asked = |steps: &[Step]| Range::of(&words(steps)).is_some();
        assert!(is_asked(&[first, Step::SkipUnless(2), other]));
        assert!(is_asked(&[
            first,
            Step::SkipUnless(2),
            other,
            Step::SkipUnless(1),
            Step::Line(0)
        ]));
        assert!(!is_asked(&[first, Step::SkipIf(2), other]));
        assert!(!is_asked(&[first, Step::Not]));
        assert!(!is_asked(&[
            first,
            Step::SkipUnless(2),
            other,
            Step::SkipIf(1),
            Step::Line(0)
        ]));
        assert!(!is_asked(&[Step::Line(0), Step::SkipUnless(2), first]));
        assert!(!is_asked(&[]));
        let returned = Step::Number(
            Operand::Of(Source::Rax),
            Kind::Integer(Width::WORD),
            Relation::Equal,
            3,
        );
        assert!(!is_asked(&[returned]));
    }
}
