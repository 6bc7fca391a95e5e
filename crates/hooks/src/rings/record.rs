//! Decoding of single records, and finding the end of one that its writer has not finished.

use super::event::RingEventKind;
use std::collections::HashMap;
use wire::calls::{self, kind};

/// Decodes a record: what happened, the time-stamp counter, and the words after its fixed part. `None` for records of
/// other kinds.
pub fn decode<'r>(
    record: &'r [u64],
    places: &HashMap<u32, usize>,
) -> Option<(RingEventKind, u64, &'r [u64])> {
    let line = |number: u32| places.get(&number).copied();
    match (record[0] >> 16 & 0xff, &record[1..]) {
        (
            kind::ENTRY | kind::HELD,
            [hook, ticks, frame, caller, a, b, c, d, e, f, rax, rest @ ..],
        ) => {
            let call = RingEventKind::Call {
                hook: *hook as u32,
                place: line(calls::event_line((hook >> 32) as u32)),
                library: line(calls::library_line((hook >> 32) as u32)),
                frame: *frame,
                caller: *caller,
                registers: [*a, *b, *c, *d, *e, *f, *rax],
            };
            Some((call, *ticks, rest))
        }
        (kind::RETURN, [hook, ticks, frame, rax, rdx, rest @ ..]) => {
            let back = RingEventKind::Return {
                hook: *hook as u32,
                frame: *frame,
                registers: [*rax, *rdx],
                x87: (hook >> 32) as usize,
            };
            Some((back, *ticks, rest))
        }
        (kind::FORK, [child, ticks, rest @ ..]) => {
            let child = *child as u32;
            Some((RingEventKind::Forked { child }, *ticks, rest))
        }
        _ => None,
    }
}

/// The length in words of an unfinished record, if others follow it. If not even its first word was written, the next
/// word is looked for that begins a record: such a word contains its own position, so another is hardly ever mistaken
/// for one.
pub fn behind(words: &[u64], position: u64) -> Option<u64> {
    let begins = |at: usize| {
        let (length, what) = calls::open(*words.get(at)?, position + at as u64)?;
        let known = matches!(what, kind::GAP..=kind::HELD | kind::BEGUN);
        (known && at + length as usize <= words.len()).then_some(length as usize)
    };
    match begins(0) {
        Some(length) => begins(length).map(|_| length as u64),
        None => (1..words.len())
            .find(|at| begins(*at).is_some())
            .map(|at| at as u64),
    }
}

/// The first `length` bytes of `words`, as text.
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
