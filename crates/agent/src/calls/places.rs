//! The script line that called: found in the VM's own frames of this thread, told once by text, then by
//! number.
//!
//! A line is told apart by its code, the point in it, and a witness (the objects that hold its path and
//! name), because the address of code that was freed is used again.

use super::lane::{Record, has_block};
use super::languages::{Reader, Words};
use crate::store::mix;
use core::sync::atomic::Ordering;
use wire::Board;
use wire::calls::{Calls, LONGEST_NAME, Lane, NewPlace, PLACES, Place, kind};

/// Made when a session begins.
static mut READER: Reader = Reader::None;

/// Makes the reader of this session.
pub fn open(calls: &Calls) {
    // SAFETY: no hook tells calls yet.
    unsafe { READER = Reader::open(calls) };
}

/// The reader of this session.
#[inline]
pub fn reader() -> &'static Reader {
    // SAFETY: written only while no hook tells calls.
    unsafe { &*(&raw const READER) }
}

/// The number of the line that runs on this thread, and which tests of lines it meets; 0 = none.
#[inline]
pub fn current(lane: &Lane, calls: &Calls, board: &Board) -> (u32, u32) {
    let found = find(lane, calls, board);
    (found as u32, (found >> 32) as u32)
}

#[inline]
fn find(lane: &Lane, calls: &Calls, board: &Board) -> u64 {
    if !has_block(lane.thread.load(Ordering::Relaxed)) {
        return 0;
    }
    let reader = reader();
    let wary = calls.wary.load(Ordering::Relaxed) != 0;
    let Some(place) = reader.place(wary) else {
        return 0;
    };
    let table = lane.places as *mut Place;
    let first = mix(place.code ^ place.witness, place.point) as usize;
    for step in 0..PLACES {
        // SAFETY: within the lane's table.
        let known = unsafe { &mut *table.add((first + step) % PLACES) };
        if known.code == place.code && known.point == place.point && known.witness == place.witness
        {
            return known.number;
        }
        if known.code == 0 {
            return learn(reader, lane, calls, board, place, known);
        }
    }
    0
}

#[cold]
#[inline(never)]
fn learn(
    reader: &Reader,
    lane: &Lane,
    calls: &Calls,
    board: &Board,
    place: Place,
    into: &mut Place,
) -> u64 {
    // Asked first: the number would come round.
    if lane.last_place.load(Ordering::Relaxed) as usize >= PLACES / 2 {
        return 0;
    }
    let number = lane.last_place.fetch_add(1, Ordering::Relaxed) + 1;
    let mut path = [0; LONGEST_NAME];
    let mut name = [0; LONGEST_NAME];
    let wary = calls.wary.load(Ordering::Relaxed) != 0;
    let words = reader.describe(place, wary, &mut path, &mut name);
    if wary && words.path == 0 {
        return 0;
    }
    let (path_words, name_words) = (words.path.div_ceil(8) as u64, words.name.div_ceil(8) as u64);
    let body = (size_of::<NewPlace>() / 8) as u64 + path_words + name_words;
    let Some(record) = Record::begin(lane, calls, board, kind::PLACE, body) else {
        return 0;
    };
    // SAFETY: the parts add up to `body`.
    unsafe {
        record.part(
            0,
            NewPlace {
                number,
                line: words.line,
                lengths: [words.path as u32, words.name as u32],
            },
        );
        let at = record.address(2) as *mut u8;
        at.copy_from_nonoverlapping(path.as_ptr(), words.path);
        at.add(path_words as usize * 8)
            .copy_from_nonoverlapping(name.as_ptr(), words.name);
    }
    record.end();
    let number = u64::from(number) | u64::from(bits(calls, &path, &name, &words)) << 32;
    *into = Place { number, ..place };
    number
}

/// Which tests of lines this line meets, as it is shown: `path:line in 'name'`.
fn bits(calls: &Calls, path: &[u8; LONGEST_NAME], name: &[u8; LONGEST_NAME], words: &Words) -> u32 {
    let [at, count] = calls.line_tests;
    if count == 0 {
        return 0;
    }
    let mut text = [0; LONGEST_NAME * 2 + 32];
    let mut length = 0;
    let mut push = |part: &[u8]| {
        for (into, byte) in text.iter_mut().skip(length).zip(part) {
            *into = *byte;
            length += 1;
        }
    };
    push(path.get(..words.path).unwrap_or_default());
    if words.line != 0 {
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut rest = words.line;
        while rest != 0 {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        push(b":");
        push(&digits[first..]);
        if words.name != 0 {
            push(b" in '");
            push(name.get(..words.name).unwrap_or_default());
            push(b"'");
        }
    }
    // SAFETY: the command wrote the words before it said where they are.
    let tests = unsafe { core::slice::from_raw_parts(at as *const u64, count as usize) };
    capture::condition::line_bits(tests, text.get(..length).unwrap_or_default())
}

/// Forgets a lane's lines.
pub fn forget(lane: &Lane) {
    // A number is taken before anything is written.
    if lane.last_place.load(Ordering::Relaxed) == 0 {
        return;
    }
    for at in 0..PLACES {
        // SAFETY: within the lane's table.
        unsafe { (lane.places as *mut Place).add(at).write(Place::default()) };
    }
    lane.last_place.store(0, Ordering::Relaxed);
}
