//! Finds the script line that made a call, in the VM's own frames of this thread. The line's text is recorded once, and
//! afterwards its number. Used by `captures`, `finish`, `quick` and others.
//!
//! A line is identified by its code, the point in the code, and a witness (the objects that hold its path and name), because
//! the address of freed code is used again.
//!
//! Where the nearest frame is a library's, the line is that of the application: frames are looked at from there outward until
//! one belongs to no library. Whether a line is a library's is decided once for each line, so a frame that is skipped costs a
//! look into the table. If all frames belong to libraries, the call has no line of the application; this is recorded beside
//! the nearest line.

use super::languages::{Script, Words};
use super::record::Record;
use super::session;
use crate::memory::copied::Copied;
use crate::memory::follow::ours;
use crate::memory::store::mix;
use core::sync::atomic::Ordering;
use vm::Cut;
use wire::calls::{
    Calls, LONGEST_NAME, MOST_LINES, NO_APPLICATION, NO_APPLICATION_TEXT, NewPlace, OF_LIBRARY,
    PLACES, Place, Ring, kind,
};
use wire::calls::{line_policy, lines};

/// Limit of frames that are skipped. If that many all belong to libraries, the nearest is recorded.
const MOST_SKIPPED: u32 = 256;

/// Mask of the number itself in [`Place::number`]; the bits above are flags.
const NUMBER: u64 = 0xffff;
/// Flag in [`Place::number`]: the line is one of a library.
const LIBRARY: u64 = 1 << 16;
/// Flag in [`Place::number`]: no record has told the reader of the ring yet which line has the number.
const UNTOLD: u64 = 1 << 17;

/// The script that the guest runs, opened when a session begins.
static mut SCRIPT: Script = Script::NONE;

/// Opens the script for this session.
pub fn open(calls: &Calls) {
    // SAFETY: `open_calls` calls this while all other threads stand still and the gate is 0, so no hook reads `SCRIPT` at the
    // same time.
    unsafe { SCRIPT = Script::open(calls) };
}

/// Returns the script that the guest runs.
#[inline]
pub fn script() -> &'static Script {
    // SAFETY: `SCRIPT` is written by `open` only, while all other threads stand still and the gate is 0, so it does not
    // change while a hook uses it.
    unsafe { &*(&raw const SCRIPT) }
}

/// What is needed to look up a line.
#[derive(Clone, Copy)]
struct Asker<'a> {
    ring: &'a Ring,
    calls: &'a Calls,
    /// The memory to read where the VM's notes of its frames may be wrong ([`Calls::wary`]).
    wary: Option<&'a Copied>,
    /// A library's line is told only where all frames are known to be libraries', and a line without a path is none.
    strict: bool,
}

/// Returns the lines of what runs on this thread ([`lines`]; 0 = none), and the tests of lines that the reported line passes.
#[inline]
pub fn current(ring: &Ring) -> (u32, u32) {
    if !script().is_there() {
        return (0, 0);
    }
    here(ring, false)
}

/// The same for a block, whose lines are counted and not shown one by one: what is not known to be the application's line, or to be called by
/// none, is no line.
pub fn of_block(ring: &Ring) -> u32 {
    if !script().is_there() {
        return 0;
    }
    here(ring, true).0
}

fn here(ring: &Ring, strict: bool) -> (u32, u32) {
    if ring.has_block.load(Ordering::Relaxed) == 0 {
        return (0, 0);
    }
    let calls = session::calls();
    if calls.wary.load(Ordering::Relaxed) != 0 {
        return here_wary(ring, calls, strict);
    }
    look(Asker {
        ring,
        calls,
        wary: None,
        strict,
    })
}

#[cold]
#[inline(never)]
fn here_wary(ring: &Ring, calls: &Calls, strict: bool) -> (u32, u32) {
    let memory = Copied::from_here(ring);
    look(Asker {
        ring,
        calls,
        wary: Some(&memory),
        strict,
    })
}

#[inline]
fn look(asker: Asker) -> (u32, u32) {
    let Some(place) = script().place(asker.wary) else {
        return (0, 0);
    };
    let Some(nearest) = asker.known(place, None) else {
        return (0, 0);
    };
    // SAFETY: `known` returned an entry of this ring's table, which is never unmapped and which only this thread and its
    // handlers write.
    let number = unsafe { (*nearest).number };
    match number & (LIBRARY | UNTOLD) {
        0 => ((number & NUMBER) as u32, (number >> 32) as u32),
        _ => asker.outward(nearest, number),
    }
}

impl Asker<'_> {
    /// Returns the entry of a place in the ring's table; `None` = there is no room for it. `code`: see [`Script::describe`].
    #[inline]
    fn known(&self, place: Place, code: Option<u64>) -> Option<*mut Place> {
        let table = ours::<Place>(self.ring.places);
        let first = mix(place.code ^ place.witness, place.point) as usize;
        for step in 0..PLACES {
            // SAFETY: the index is less than [`PLACES`], the entries of the ring's table, which is never unmapped.
            let entry = unsafe { table.add((first + step) % PLACES) };
            // SAFETY: the entry is in the ring's table, which only this thread and its handlers write; a handler that runs in
            // between has finished before this continues.
            let known = unsafe { *entry };
            if known.code == place.code
                && known.point == place.point
                && known.witness == place.witness
            {
                return Some(entry);
            }
            if known.code == 0 {
                return self.learn(place, code, entry);
            }
        }
        None
    }

    /// Returns the lines of a call whose nearest frame is a library's, or new.
    #[cold]
    #[inline(never)]
    fn outward(&self, nearest: *mut Place, number: u64) -> (u32, u32) {
        let mut found = 0;
        let mut all_seen = true;
        if number & LIBRARY != 0 {
            let mut skipped = 0;
            let is_whole = script().outward(self.wary, |place, code| {
                skipped += 1;
                let Some(entry) = self.known(place, Some(code)) else {
                    all_seen = false;
                    return false;
                };
                // SAFETY: `known` returned an entry of this ring's table, which is never unmapped and which only this thread
                // and its handlers write.
                if unsafe { (*entry).number } & LIBRARY != 0 {
                    all_seen = skipped < MOST_SKIPPED;
                    return all_seen;
                }
                found = self.told(entry, Some(code));
                false
            });
            // What could not be read may be the application.
            all_seen &= is_whole;
        }
        if found == 0 && number & LIBRARY != 0 && self.strict && !all_seen {
            return (0, 0);
        }
        let nearest = self.told(nearest, None);
        let number = |known: u64| (known & NUMBER) as u32;
        let is_library = nearest & LIBRARY != 0;
        match found {
            0 if is_library && all_seen => (
                lines(NO_APPLICATION, number(nearest)),
                line_bits(self.calls, NO_APPLICATION_TEXT.as_bytes()),
            ),
            0 => (number(nearest), (nearest >> 32) as u32),
            _ => (lines(number(found), number(nearest)), (found >> 32) as u32),
        }
    }

    /// Adds a place that is new. Its line is not recorded yet, because only one of many frames is reported.
    #[cold]
    #[inline(never)]
    fn learn(&self, place: Place, code: Option<u64>, into: *mut Place) -> Option<*mut Place> {
        // This is checked first, because the number would overflow.
        if self.ring.last_place.load(Ordering::Relaxed) >= MOST_LINES {
            return None;
        }
        let words = self.words(place, code)?;
        let number = self.ring.last_place.fetch_add(1, Ordering::Relaxed) + 1;
        let bits = bits(self.calls, &words);
        let library = match self.calls.line_policy & 0xffff_ffff {
            line_policy::NEAREST => false,
            _ if u64::from(bits) & self.calls.passed_over != 0 => true,
            line_policy::APPLICATION => script().is_library(words.path()),
            _ => u64::from(bits) & self.calls.line_policy >> 32 == 0,
        };
        let noted = if library { LIBRARY | UNTOLD } else { UNTOLD };
        let number = u64::from(number) | u64::from(bits) << 32 | noted;
        // SAFETY: `into` is an entry of this ring's table, which is never unmapped and which only this thread and its
        // handlers write.
        unsafe { *into = Place { number, ..place } };
        Some(into)
    }

    fn words(&self, place: Place, code: Option<u64>) -> Option<Words> {
        let mut words = Words::default();
        script().describe(place, code, &mut words);
        // With frames that may be wrong for a moment, a line without a path is no line, and neither is one of blocks that could not be read.
        let needs_path = self.wary.is_some() || self.strict;
        (!needs_path || !words.path().is_empty()).then_some(words)
    }

    /// Records the line of an entry if the reader does not know it yet, and returns its number; 0 = there was no room.
    fn told(&self, entry: *mut Place, code: Option<u64>) -> u64 {
        // SAFETY: `entry` is in this ring's table, which is never unmapped and which only this thread and its handlers write.
        let place = unsafe { *entry };
        if place.number & UNTOLD == 0 {
            return place.number;
        }
        let tell = || {
            let words = self.words(place, code)?;
            let (path, name) = (words.path(), words.name());
            let [path_words, name_words] = [path, name].map(|text| text.len().div_ceil(8) as u64);
            let body = (size_of::<NewPlace>() / 8) as u64 + path_words + name_words;
            let record = Record::begin(self.ring, kind::PLACE, body + 1, 0)?;
            let of_library = if place.number & LIBRARY != 0 {
                OF_LIBRARY
            } else {
                0
            };
            let line = NewPlace {
                number: (place.number & NUMBER) as u32 | of_library,
                line: words.line,
                lengths: [path.len() as u32, name.len() as u32],
            };
            // SAFETY: the record was reserved with `body` words, which are the line's head and the two texts written here.
            unsafe {
                record.part(0, line);
                let at = ours::<u8>(record.address(2));
                at.copy_from_nonoverlapping(path.as_ptr(), path.len());
                at.add(path_words as usize * 8)
                    .copy_from_nonoverlapping(name.as_ptr(), name.len());
            }
            record.end(0);
            Some(place.number & !UNTOLD)
        };
        let Some(number) = tell() else {
            return 0;
        };
        // SAFETY: `entry` is in this ring's table, which is never unmapped. What a handler wrote there meanwhile is the same,
        // or is found anew later.
        unsafe { *entry = Place { number, ..place } };
        number
    }
}

/// Returns which tests this line passes, as it is shown: `path:line in 'name'`.
fn bits(calls: &Calls, words: &Words) -> u32 {
    if calls.line_tests[1] == 0 {
        return 0;
    }
    let mut text = [0; LONGEST_NAME * 2 + 32];
    let mut shown = Cut::new(&mut text);
    words.show(&mut shown);
    let length = shown.length();
    line_bits(calls, text.get(..length).unwrap_or_default())
}

/// Returns which tests of lines this text passes.
fn line_bits(calls: &Calls, text: &[u8]) -> u32 {
    let [at, count] = calls.line_tests;
    if count == 0 {
        return 0;
    }
    // SAFETY: the command writes the words before it writes their address and number, and changes none of them in a session.
    let tests = unsafe { core::slice::from_raw_parts(ours::<u64>(at), count as usize) };
    capture::condition::line_bits(tests, text)
}

#[cfg(test)]
mod tests;
