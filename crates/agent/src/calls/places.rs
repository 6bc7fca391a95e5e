//! The script line that called: found in the VM's own frames of this thread, told once by text, then by
//! number.
//!
//! A line is told apart by its code, the point in it, and a witness (the objects that hold its path and
//! name), because the address of code that was freed is used again.
//!
//! Where the nearest frame is a library's, the line is that of the application: frames are looked at from there outward until
//! one is none. Which is a library's is decided once for each line, so a frame that is skipped costs a look into the table.
//! Where all frames are of libraries, the call is no line's of the application, which is told beside the nearest line.

use super::languages::{Script, Words};
use super::record::Record;
use super::session;
use crate::memory::store::mix;
use core::sync::atomic::Ordering;
use vm::Cut;
use wire::calls::{
    Calls, LONGEST_NAME, MOST_LINES, NO_APPLICATION, NO_APPLICATION_TEXT, NewPlace, OF_LIBRARY,
    PLACES, Place, Ring, kind,
};
use wire::calls::{line_policy, lines};

/// Frames that are skipped at most; if all of so many are of libraries, the nearest is told.
const MOST_SKIPPED: u32 = 256;

/// In [`Place::number`]: the number itself, and what is noted beside it.
const NUMBER: u64 = 0xffff;
/// In [`Place::number`]: the line is one of a library.
const LIBRARY: u64 = 1 << 16;
/// In [`Place::number`]: no record has told the reader of the ring yet which line has the number.
const UNTOLD: u64 = 1 << 17;

/// The script that the guest runs; opened when a session begins.
static mut SCRIPT: Script = Script::NONE;

/// Opens the script for this session.
pub fn open(calls: &Calls) {
    // SAFETY: no hook tells calls yet.
    unsafe { SCRIPT = Script::open(calls) };
}

/// The script that the guest runs.
#[inline]
pub fn script() -> &'static Script {
    // SAFETY: written only while no hook tells calls.
    unsafe { &*(&raw const SCRIPT) }
}

/// Who asks for a line.
#[derive(Clone, Copy)]
struct Asker<'a> {
    ring: &'a Ring,
    calls: &'a Calls,
    wary: bool,
}

/// The lines of what runs on this thread ([`lines`]; 0 = none), and which tests of lines the one that is told meets.
#[inline]
pub fn current(ring: &Ring) -> (u32, u32) {
    if !script().is_there() {
        return (0, 0);
    }
    here(ring)
}

fn here(ring: &Ring) -> (u32, u32) {
    if ring.has_block.load(Ordering::Relaxed) == 0 {
        return (0, 0);
    }
    let calls = session::calls();
    let asker = Asker {
        ring,
        calls,
        wary: calls.wary.load(Ordering::Relaxed) != 0,
    };
    let Some(place) = script().place(asker.wary) else {
        return (0, 0);
    };
    let Some(nearest) = asker.known(place, None) else {
        return (0, 0);
    };
    // SAFETY: an entry of this ring's table.
    let number = unsafe { (*nearest).number };
    match number & (LIBRARY | UNTOLD) {
        0 => ((number & NUMBER) as u32, (number >> 32) as u32),
        _ => asker.outward(nearest, number),
    }
}

impl Asker<'_> {
    /// The entry of a place in the ring's table; `None` = there is no room for it. `code`: see [`Script::describe`].
    #[inline]
    fn known(&self, place: Place, code: Option<u64>) -> Option<*mut Place> {
        let table = self.ring.places as *mut Place;
        let first = mix(place.code ^ place.witness, place.point) as usize;
        for step in 0..PLACES {
            // SAFETY: within the ring's table.
            let entry = unsafe { table.add((first + step) % PLACES) };
            // SAFETY: as above; a handler on this thread may write it in between, but is done with it then.
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

    /// The lines of a call whose nearest frame is a library's, or new.
    #[cold]
    #[inline(never)]
    fn outward(&self, nearest: *mut Place, number: u64) -> (u32, u32) {
        let mut found = 0;
        let mut all_seen = true;
        if number & LIBRARY != 0 {
            let mut skipped = 0;
            script().outward(self.wary, |place, code| {
                skipped += 1;
                let Some(entry) = self.known(place, Some(code)) else {
                    all_seen = false;
                    return false;
                };
                // SAFETY: an entry of this ring's table.
                if unsafe { (*entry).number } & LIBRARY != 0 {
                    all_seen = skipped < MOST_SKIPPED;
                    return all_seen;
                }
                found = self.told(entry, Some(code));
                false
            });
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

    /// Notes a place that is new. It is not told yet, because of many frames only one is.
    #[cold]
    #[inline(never)]
    fn learn(&self, place: Place, code: Option<u64>, into: *mut Place) -> Option<*mut Place> {
        // Asked first: the number would come round.
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
        // SAFETY: an entry of this ring's table.
        unsafe { *into = Place { number, ..place } };
        Some(into)
    }

    fn words(&self, place: Place, code: Option<u64>) -> Option<Words> {
        let mut words = Words::default();
        script().describe(place, code, &mut words);
        // What was found where frames are wrong for a moment is none.
        (!self.wary || !words.path().is_empty()).then_some(words)
    }

    /// The number of an entry, which the reader knows from now on; 0 = it could not be told.
    fn told(&self, entry: *mut Place, code: Option<u64>) -> u64 {
        // SAFETY: an entry of this ring's table.
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
            // SAFETY: the parts add up to `body`.
            unsafe {
                record.part(0, line);
                let at = record.address(2) as *mut u8;
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
        // SAFETY: as above. What a handler wrote there meanwhile is the same or found anew.
        unsafe { *entry = Place { number, ..place } };
        number
    }
}

/// Which tests of lines this line meets, as it is shown: `path:line in 'name'`.
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

/// Which tests of lines this text meets.
fn line_bits(calls: &Calls, text: &[u8]) -> u32 {
    let [at, count] = calls.line_tests;
    if count == 0 {
        return 0;
    }
    // SAFETY: the command wrote the words before it said where they are.
    let tests = unsafe { core::slice::from_raw_parts(at as *const u64, count as usize) };
    capture::condition::line_bits(tests, text)
}
