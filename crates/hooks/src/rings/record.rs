//! Decodes single records, and finds the end of a record that its writer has not finished. Used by `rings`, `read`,
//! `figures` and others.

use super::event::RingEventKind;
use super::short::Pair;
use std::collections::HashMap;
use wire::calls::record::{self, Shape};
use wire::calls::{self, NO_APPLICATION, kind, lines};

/// The key in [`Decoder::places`] of the line for calls that no line of the application has made; `library` is the
/// nearest library line.
pub const fn none_of(library: u32) -> u32 {
    lines(NO_APPLICATION, library)
}

/// The state by which the records of one ring are decoded.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Lines by the numbers that the ring has for them.
    pub places: HashMap<u32, usize>,
    /// How often a number was assigned a line; conclusions from an earlier count may be outdated.
    pub learned: u32,
    /// How the last short call was decoded.
    pub(super) pair: Pair,
    /// Of the last call: the number of its hook, its stack pointer, its time.
    last: (u32, u64, u64),
}

/// What a record says.
pub struct Decoded<'r> {
    pub kind: RingEventKind,
    pub ticks: u64,
    /// The words after the fixed part, as [`super::Rings::next`] hands them on.
    pub rest: &'r [u64],
}

impl Decoder {
    /// Returns when a record was written, if it is of an event. `now`: a time-stamp counter that is not much older than
    /// the record.
    pub fn ticks(&self, record: &[u64], now: u64) -> Option<u64> {
        let word = *record.get(1)?;
        match record[0] >> 16 & 0xff {
            kind::ENTRY | kind::HELD | kind::RETURN => Some(record::ticks(word, now)),
            kind::RETURNED => Some(self.last.2.wrapping_add(word & 0xffff_ffff)),
            kind::FORK => record.get(2).copied(),
            _ => None,
        }
    }

    /// Returns the indices of the event's line and of the library's line, from words 2 and 3 of a record.
    #[inline]
    pub(super) fn lines(&self, words: [u64; 2]) -> [Option<usize>; 2] {
        let [event, library] = record::lines_of(words);
        let event = match event {
            NO_APPLICATION => none_of(library),
            line => line,
        };
        [event, library].map(|number| match number {
            0 => None,
            number => self.places.get(&number).copied(),
        })
    }

    /// Decodes a record; `None` for records of other kinds. `spare` receives the words that follow, if they do not stand
    /// in the record in that form.
    #[inline]
    pub fn decode<'r>(
        &mut self,
        record: &'r [u64],
        now: u64,
        spare: &'r mut Vec<u64>,
    ) -> Option<Decoded<'r>> {
        let shape = Shape::of_header(record[0]);
        match (record[0] >> 16 & 0xff, &record[1..]) {
            (kind::ENTRY | kind::HELD, [time, stack, caller, rest @ ..]) => {
                let ticks = record::ticks(*time, now);
                let hook = record::hook([*time, *stack]);
                let frame = record::address(*stack);
                self.last = (hook, frame, ticks);
                let (registers, rest) = integers(shape, rest);
                let [place, library] = self.lines([*stack, *caller]);
                let kind = RingEventKind::Call {
                    hook,
                    place,
                    library,
                    frame,
                    caller: record::address(*caller),
                    registers,
                };
                let rest = widened::<8>(shape.vectors(), rest, spare);
                Some(Decoded { kind, ticks, rest })
            }
            (kind::RETURN, [time, stack, rax, rest @ ..]) => {
                let (hook, frame) = (record::hook([*time, *stack]), record::address(*stack));
                let ticks = record::ticks(*time, now);
                Some(Decoded::back(
                    (hook, frame, ticks),
                    shape,
                    *rax,
                    rest,
                    spare,
                ))
            }
            (kind::RETURNED, [first, rest @ ..]) => {
                let (hook, frame, began) = self.last;
                let ticks = began.wrapping_add(first & 0xffff_ffff);
                let (rax, rest) = match (shape.has_narrow_result(), rest) {
                    (false, [rax, rest @ ..]) => (*rax, rest),
                    (_, rest) => (first >> 32, rest),
                };
                Some(Decoded::back((hook, frame, ticks), shape, rax, rest, spare))
            }
            (kind::FORK, [child, ticks, rest @ ..]) => {
                let kind = RingEventKind::Forked {
                    child: *child as u32,
                };
                let ticks = *ticks;
                Some(Decoded { kind, ticks, rest })
            }
            _ => None,
        }
    }
}

impl<'r> Decoded<'r> {
    /// The return of a hook's call, with rax and the values that follow it.
    #[inline]
    fn back(
        (hook, frame, ticks): (u32, u64, u64),
        shape: Shape,
        rax: u64,
        rest: &'r [u64],
        spare: &'r mut Vec<u64>,
    ) -> Self {
        let (rdx, rest) = match (shape.second_result(), rest) {
            (true, [rdx, rest @ ..]) => (*rdx, rest),
            _ => (0, rest),
        };
        let kind = RingEventKind::Return {
            hook,
            frame,
            registers: [rax, rdx],
            x87: shape.x87_words() as usize,
        };
        let rest = widened::<2>(shape.vector_results(), rest, spare);
        Decoded { kind, ticks, rest }
    }
}

/// The integer registers of a call (those that were not recorded are 0), and the words behind them.
#[inline]
fn integers(shape: Shape, words: &[u64]) -> ([u64; 7], &[u64]) {
    let all = (words, [].as_slice());
    let (own, rest) = words.split_at_checked(shape.integer_words()).unwrap_or(all);
    (shape.integer_registers(own), rest)
}

/// Returns words that begin with `N` vector registers, of which `count` were recorded. Without any, and with nothing
/// behind them, there are none.
#[inline]
fn widened<'r, const N: usize>(count: u64, words: &'r [u64], spare: &'r mut Vec<u64>) -> &'r [u64] {
    let count = count as usize;
    if words.is_empty() || count == N {
        return words;
    }
    let (vectors, copies) = words.split_at(count.min(N).min(words.len()));
    spare.clear();
    spare.extend_from_slice(vectors);
    spare.resize(N, 0);
    spare.extend_from_slice(copies);
    spare
}

/// The length in words of an unfinished record, if others follow it. If not even its first word was written, the next
/// word is looked for that begins a record: such a word contains its own position, so another is hardly ever mistaken
/// for one.
pub fn behind(words: &[u64], position: u64) -> Option<u64> {
    let begins = |at: usize| {
        let (length, what) = calls::open(*words.get(at)?, position + at as u64)?;
        let known = matches!(what, kind::GAP..=kind::RETURNED | kind::BEGUN);
        (known && at + length as usize <= words.len()).then_some(length as usize)
    };
    match begins(0) {
        Some(length) => begins(length).map(|_| length as u64),
        None => (1..words.len())
            .find(|at| begins(*at).is_some())
            .map(|at| at as u64),
    }
}

/// Returns the first `length` bytes of `words` as text.
pub fn string(words: &[u64], length: usize) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes[..length.min(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_behind_an_unfinished_one_is_found() {
        let header = |words, kind, at| calls::header(words, kind, at);
        let begun = [
            header(3, kind::BEGUN, 64),
            1,
            2,
            header(2, kind::THREAD, 67),
            9,
        ];
        assert_eq!(behind(&begun, 64), Some(3));
        // Nothing follows: its writer is at work.
        assert_eq!(behind(&begun[..3], 64), None);
        // Left before its first word was written: the words are of an earlier lap of the ring.
        let left = [
            header(3, kind::ENTRY, 32),
            1,
            2,
            header(2, kind::THREAD, 67),
            9,
        ];
        assert_eq!(behind(&left, 64), Some(3));
        assert_eq!(behind(&left[..3], 64), None);
    }
}
