//! Which calls are reported: a condition (`--where`) as words, and what decides it in the guest. Used by `range`, and
//! by the crates `prototypes`, `calls`, `agent` and `lancet`.
//!
//! A condition is a row of tests that set a flag, and of skips forward over tests whose result does not matter any
//! more. So it ends, and soon: no skip leads back, and a test reads at most [`LONGEST_TEXT`] bytes.
//!
//! ```text
//!   arg1 == 3 && (arg2 ~ "SELECT" || line ~ "app.rb")
//!
//!   Number rdi as int == 3
//!   SkipUnless 5
//!   Text   rsi contains "SELECT"         (three words)
//!   SkipIf 1
//!   Line   0                             bits of a line are found once, when the line is first seen
//! ```
//!
//! As words: operation in bits 0..8, `a` in 8..16, `b` in 16..32, `c` in 32..64, as an [`Op`]; numbers from
//! 64 on. What cannot be read fails its test, whatever the test.

mod search;

use crate::describe::What;
use crate::op::{Op, Source, Width};
use crate::run::{Registers, Returned};
use crate::value::{Item, NoValues, Value, Values};
use search::{InMemory, literal, search};

/// Bytes of a text in the guest that are looked at, at most.
pub const LONGEST_TEXT: u64 = 4096;
/// Bytes of a text that is searched for, at most.
pub const LONGEST_SOUGHT: usize = 64;
/// Different tests of lines in one condition, at most.
pub const MOST_LINES: usize = 32;

const PAGE: u64 = 4096;

/// The number that a step compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A word of the call.
    Of(Source),
    /// xmm0 when the function returned.
    ReturnedSse,
    /// Cycles of the time-stamp counter that the call took.
    Elapsed,
    /// The value that the step before looked up, if it is a whole number.
    Value,
}

/// How the bits of a word are read as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The part of the word that the width names, a whole number.
    Integer(Width),
    /// A `float`: IEEE 754 single precision, in the low four bytes of the word.
    Float,
    /// A `double`: IEEE 754 double precision.
    Double,
}

/// The relation that two numbers must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whether the text must contain what is searched for; else it must equal it.
    pub within: bool,
    /// Whether upper case letters of ASCII count as lower case. The text that is searched for is in lower case.
    pub folded: bool,
    /// Whether the result is negated.
    pub not: bool,
    /// Of lines only, in place of `within`: whether the text is that place, `FILE:LINE` with the end of the path for FILE.
    pub place: bool,
}

/// Where a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// At the first byte that is 0.
    Ended,
    /// At its NUL, or after this many bytes.
    AtMost(Source, Width),
    /// After this many bytes, whatever they are.
    Counted(Source, Width),
}

/// One step of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Compares a number: which, how its bits are read, with which relation, and with what.
    Number(Operand, Kind, Relation, u64),
    /// Compares a text in memory: where its address is, how, with what, and where it ends.
    Text(Source, How, &'a [u8], Length),
    /// Sets the flag if the line of the script has this bit.
    Line(u8),
    /// Looks up a value of a language VM for the next step.
    Value(Item),
    /// Compares the text of the value that the step before looked up: how, and with what.
    ValueText(How, &'a [u8]),
    /// Sets the flag if that value is nothing (`nil`, `None`, `undef`, `null`); with `false`, if it is something.
    Nothing(bool),
    /// Sets or clears the flag.
    Constant(bool),
    /// Sets the flag if it is clear, and clears it if it is set.
    Not,
    /// If the flag is clear, skips this number of words.
    SkipUnless(u32),
    /// If the flag is set, skips this number of words.
    SkipIf(u32),
}

const NUMBER: u8 = 64;
const TEXT: u8 = 65;
const LINE: u8 = 66;
const CONSTANT: u8 = 67;
const NOT: u8 = 68;
const SKIP_UNLESS: u8 = 69;
const SKIP_IF: u8 = 70;
const VALUE: u8 = 71;
const VALUE_TEXT: u8 = 72;
const NOTHING: u8 = 73;

/// `a` of an operand that is no word of the call.
const RETURNED_SSE: u8 = 0x80;
const ELAPSED: u8 = 0x81;
const OF_VALUE: u8 = 0x82;

const fn word(op: u8, a: u8, b: u16, c: u32) -> u64 {
    op as u64 | (a as u64) << 8 | (b as u64) << 16 | (c as u64) << 32
}

impl How {
    const fn encode(self) -> u32 {
        self.within as u32
            | (self.folded as u32) << 1
            | (self.not as u32) << 2
            | (self.place as u32) << 4
    }
}

fn encode_text(sought: &[u8], mut put: impl FnMut(u64)) {
    for part in sought.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        put(u64::from_le_bytes(bytes));
    }
}

impl Step<'_> {
    /// Calls `put` with each word of the step.
    pub fn encode(&self, mut put: impl FnMut(u64)) {
        match *self {
            Step::Number(place, kind, relation, with) => {
                // A source as `Op::Value` has it.
                let (a, b) = match place {
                    Operand::Of(source) => {
                        let word = Op::Value(source).encode();
                        ((word >> 8) as u8, (word >> 16) as u16)
                    }
                    Operand::ReturnedSse => (RETURNED_SSE, 0),
                    Operand::Elapsed => (ELAPSED, 0),
                    Operand::Value => (OF_VALUE, 0),
                };
                let (kind, width) = match kind {
                    Kind::Integer(width) => (0, width.encode()),
                    Kind::Float => (1, 0),
                    Kind::Double => (2, 0),
                };
                let c = relation as u32 | kind << 8 | (width as u32) << 16;
                put(word(NUMBER, a, b, c));
                put(with);
            }
            Step::Text(source, how, sought, length) => {
                let from = Op::Value(source).encode();
                let sought = &sought[..sought.len().min(LONGEST_SOUGHT)];
                let counted = matches!(length, Length::Counted(..));
                let c = how.encode() | (counted as u32) << 3 | (sought.len() as u32) << 8;
                put(word(TEXT, (from >> 8) as u8, (from >> 16) as u16, c));
                put(match length {
                    Length::Ended => 0,
                    Length::AtMost(source, width) | Length::Counted(source, width) => {
                        Op::Count(source, width).encode()
                    }
                });
                encode_text(sought, put);
            }
            Step::Value(item) => {
                let from = Op::Value(item.source).encode();
                let c = u32::from(item.what.0) | u32::from(item.index) << 8;
                put(word(VALUE, (from >> 8) as u8, (from >> 16) as u16, c));
            }
            Step::ValueText(how, sought) => {
                let sought = &sought[..sought.len().min(LONGEST_SOUGHT)];
                let c = how.encode() | (sought.len() as u32) << 8;
                put(word(VALUE_TEXT, 0, 0, c));
                encode_text(sought, put);
            }
            Step::Nothing(is) => put(word(NOTHING, is as u8, 0, 0)),
            Step::Line(bit) => put(word(LINE, bit, 0, 0)),
            Step::Constant(flag) => put(word(CONSTANT, flag as u8, 0, 0)),
            Step::Not => put(word(NOT, 0, 0, 0)),
            Step::SkipUnless(words) => put(word(SKIP_UNLESS, 0, 0, words)),
            Step::SkipIf(words) => put(word(SKIP_IF, 0, 0, words)),
        }
    }
}

/// What is known of a call when its condition is tested.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The registers at the call.
    pub registers: &'a Registers,
    /// The registers at the return, once it has returned.
    pub returned: Option<&'a Returned>,
    /// Cycles of the time-stamp counter that it took.
    pub elapsed: u64,
    /// The bits of its script line, from [`line_bits`].
    pub lines: u32,
}

/// Returns whether a condition holds. `read` returns how many bytes of a chunk it could read, from the chunk's
/// beginning; it is never called for a chunk that crosses a page. A word that is no step makes the condition false.
pub fn holds(words: &[u64], facts: Facts, read: impl FnMut(u64, &mut [u8]) -> usize) -> bool {
    holds_of(words, facts, read, &mut NoValues)
}

/// As [`holds`], with a reader for values of a VM.
pub fn holds_of(
    words: &[u64],
    facts: Facts,
    mut read: impl FnMut(u64, &mut [u8]) -> usize,
    values: &mut impl Values,
) -> bool {
    decide(words, facts, &mut read, values).unwrap_or(false)
}

fn decide(
    words: &[u64],
    facts: Facts,
    read: &mut impl FnMut(u64, &mut [u8]) -> usize,
    values: &mut impl Values,
) -> Option<bool> {
    let mut flag = true;
    let mut value = None;
    let mut at = 0;
    while let Some(&word) = words.get(at) {
        at += 1;
        let (a, b, c) = ((word >> 8) as u8, (word >> 16) as u16, (word >> 32) as u32);
        match word as u8 {
            NUMBER => {
                let with = *words.get(at)?;
                at += 1;
                let number = match (a, value) {
                    (OF_VALUE, Some(Value::Integer(number))) => Some(number as u64),
                    (OF_VALUE, _) => None,
                    _ => number(a, b, facts, read),
                };
                flag = number.is_some_and(|word| compare(word, c, with));
            }
            TEXT => {
                let source = Source::decode(a, b)?;
                let length = (c >> 8) as usize;
                let count = *words.get(at)?;
                let sought = words.get(at + 1..at + 1 + length.div_ceil(8))?;
                at += 1 + sought.len();
                let most = match Op::decode(count) {
                    Some(Op::Count(source, width)) => {
                        let count = of(source, facts, read).map(|word| width.of(word));
                        // A negative number is an error code of the library, not a length.
                        count.filter(|count| (*count as i64) >= 0)
                    }
                    _ => Some(LONGEST_TEXT),
                };
                let from = of(source, facts, read);
                flag = from.zip(most).is_some_and(|(from, most)| {
                    let mut text = InMemory {
                        at: from,
                        left: most.min(LONGEST_TEXT),
                        counted: c & 8 != 0,
                        read: &mut *read,
                    };
                    search(how(c), &literal(sought, length), |into| text.fetch(into))
                });
            }
            VALUE => {
                let item = Item {
                    source: Source::decode(a, b)?,
                    what: What(c as u8),
                    index: (c >> 8) as u16,
                };
                let word = of(item.source, facts, read);
                value = word.and_then(|word| values.value(item, word));
            }
            VALUE_TEXT => {
                let length = (c >> 8) as usize;
                let sought = words.get(at..at + length.div_ceil(8))?;
                at += sought.len();
                flag = match value {
                    Some(Value::Text(mut text)) => {
                        text.left = text.left.min(LONGEST_TEXT);
                        search(how(c), &literal(sought, length), |into| {
                            values.fetch(&mut text, into)
                        })
                    }
                    _ => false,
                };
            }
            NOTHING => flag = value.is_some_and(|value| (value == Value::Nothing) == (a != 0)),
            LINE => flag = facts.lines >> (a & 31) & 1 != 0,
            CONSTANT => flag = a != 0,
            NOT => flag = !flag,
            SKIP_UNLESS if !flag => at += c as usize,
            SKIP_IF if flag => at += c as usize,
            SKIP_UNLESS | SKIP_IF => {}
            _ => return None,
        }
    }
    Some(flag)
}

/// Returns the first step's register, part of it, relation and number, if that step compares an integer register and
/// the condition is false where it is not met.
pub(crate) fn decided_first(words: &[u64]) -> Option<(u8, Width, Relation, u64)> {
    let (&word, &with) = (words.first()?, words.get(1)?);
    let (a, b, c) = ((word >> 8) as u8, (word >> 16) as u16, (word >> 32) as u32);
    let integer = word as u8 == NUMBER && a < 0x80 && c >> 8 & 0xff == 0;
    let Some(Source::Gp(register)) = Source::decode(a, b).filter(|_| integer) else {
        return None;
    };
    let mut at = 2;
    while let Some(&next) = words.get(at) {
        if next as u8 != SKIP_UNLESS {
            return None;
        }
        at += 1 + (next >> 32) as usize;
    }
    let relation = match c as u8 {
        0 => Relation::Equal,
        1 => Relation::NotEqual,
        2 => Relation::Less,
        3 => Relation::LessOrEqual,
        4 => Relation::Greater,
        5 => Relation::GreaterOrEqual,
        _ => return None,
    };
    Some((register, Width::decode((c >> 16) as u8), relation, with))
}

/// Returns the bits of a line that reads `text`: one for each [`Step::Text`] of `words`, whose source is ignored.
pub fn line_bits(words: &[u64], text: &[u8]) -> u32 {
    let mut bits = 0;
    let mut at = 0;
    let mut bit = 0;
    while let Some(&word) = words.get(at) {
        let c = (word >> 32) as u32;
        let length = (c >> 8) as usize;
        let Some(sought) = words.get(at + 2..at + 2 + length.div_ceil(8)) else {
            break;
        };
        at += 2 + sought.len();
        if word as u8 != TEXT || bit == MOST_LINES {
            break;
        }
        let (how, sought) = (how(c), literal(sought, length));
        let mut left = text;
        let found = if how.place {
            is_place(text, sought.bytes()) != how.not
        } else {
            search(how, &sought, |into| {
                let (now, later) = left.split_at(left.len().min(into.len()));
                into[..now.len()].copy_from_slice(now);
                left = later;
                Some(now.len())
            })
        };
        bits |= u32::from(found) << bit;
        bit += 1;
    }
    bits
}

/// Whether a line, `path:line in 'name'`, is this place: its path ends with that of `sought`, a whole name at least, and
/// the line is the same.
fn is_place(text: &[u8], sought: &[u8]) -> bool {
    let last = text.len().saturating_sub(sought.len());
    (0..=last).any(|at| {
        text[at..].strip_prefix(sought).is_some_and(|behind| {
            (at == 0 || text[at - 1] == b'/') && (behind.is_empty() || behind.starts_with(b" in '"))
        })
    })
}

fn of(source: Source, facts: Facts, read: &mut impl FnMut(u64, &mut [u8]) -> usize) -> Option<u64> {
    let registers = facts.registers;
    match source {
        Source::Gp(n) => registers.gp.get(usize::from(n)).copied(),
        Source::Sse(n) => registers.sse.get(usize::from(n)).copied(),
        Source::StackAddress(offset) => Some(registers.stack.wrapping_add(offset.into())),
        Source::Rax => Some(facts.returned?.rax),
        Source::Rdx => Some(facts.returned?.rdx),
        Source::Callers => None,
        Source::Stack(offset) => {
            let mut word = [0; 8];
            let at = registers.stack.wrapping_add(offset.into());
            let first = ((PAGE - at % PAGE) as usize).min(8);
            let (front, back) = word.split_at_mut(first);
            let mut fill = |at, part: &mut [u8]| part.is_empty() || read(at, part) == part.len();
            let readable = fill(at, front) && fill(at.wrapping_add(first as u64), back);
            readable.then(|| u64::from_le_bytes(word))
        }
    }
}

fn number(
    a: u8,
    b: u16,
    facts: Facts,
    read: &mut impl FnMut(u64, &mut [u8]) -> usize,
) -> Option<u64> {
    match a {
        RETURNED_SSE => Some(facts.returned?.sse[0]),
        ELAPSED => Some(facts.elapsed),
        _ => of(Source::decode(a, b)?, facts, read),
    }
}

/// Returns whether `word` has relation `c` to `with`. Floating-point numbers are compared as integers of the same
/// order, because the guest's floating-point state must not be touched.
fn compare(word: u64, c: u32, with: u64) -> bool {
    let order = match c >> 8 & 0xff {
        0 => {
            let width = Width::decode((c >> 16) as u8);
            let word = width.of(word);
            if width.signed {
                (word as i64).cmp(&(with as i64))
            } else {
                word.cmp(&with)
            }
        }
        kind => match (ordered(kind, word), ordered(kind, with)) {
            (Some(word), Some(with)) => word.cmp(&with),
            // NaN: it is unequal to everything.
            _ => return c as u8 == Relation::NotEqual as u8,
        },
    };
    match c as u8 {
        0 => order.is_eq(),
        1 => order.is_ne(),
        2 => order.is_lt(),
        3 => order.is_le(),
        4 => order.is_gt(),
        5 => order.is_ge(),
        _ => false,
    }
}

/// Maps an IEEE 754 number to an integer of the same order; `None` for NaN.
fn ordered(kind: u32, word: u64) -> Option<i64> {
    let (sign, magnitude, infinity) = match kind {
        1 => (word >> 31 & 1, word & 0x7fff_ffff, 0xff << 23),
        _ => (word >> 63, word & (u64::MAX >> 1), 0x7ff << 52),
    };
    let number = magnitude as i64;
    (magnitude <= infinity).then_some(if sign != 0 { -number } else { number })
}

fn how(c: u32) -> How {
    How {
        within: c & 1 != 0,
        folded: c & 2 != 0,
        not: c & 4 != 0,
        place: c & 16 != 0,
    }
}
