//! The script line that called: found in the VM's own frames of this thread, told once by text, then by
//! number.
//!
//! A line is told apart by its code, the point in it, and a witness (the objects that hold its path and
//! name), because the address of code that was freed is used again.

use super::lane::{Record, thread_pointer};
use crate::names::Direct;
use crate::store::mix;
use core::sync::atomic::Ordering;
use vm::ruby::{Facts, Ruby};
use wire::Board;
use wire::calls::{self, Calls, LONGEST_NAME, Lane, NewPlace, PLACES, Place, kind, language};

/// The VM's reader, made when a session begins.
static mut RUBY: Option<Ruby<'static, Direct>> = None;

/// Makes the reader; whether there is one for this VM.
pub fn open(calls: &Calls) -> bool {
    let mut words = [0; Facts::WORDS];
    for (word, given) in words.iter_mut().zip(&calls.facts) {
        *word = *given;
    }
    let reader = match calls.language {
        language::RUBY => Ruby::new(&Direct, Facts::from_words(words)).ok(),
        _ => None,
    };
    let found = reader.is_some();
    // SAFETY: no hook tells calls yet.
    unsafe { RUBY = reader };
    found
}

/// The number of the line that runs on this thread; 0 = none.
#[inline]
pub fn current(lane: &Lane, calls: &Calls, board: &Board) -> u32 {
    // SAFETY: written only while no hook tells calls.
    let Some(ruby) = (unsafe { &*(&raw const RUBY) }) else {
        return 0;
    };
    let Some(place) = ruby_place(ruby, calls.state_offset) else {
        return 0;
    };
    let table = lane.places as *mut Place;
    let first = mix(place.code ^ place.witness, place.point) as usize;
    for step in 0..PLACES {
        // SAFETY: within the lane's table.
        let known = unsafe { &mut *table.add((first + step) % PLACES) };
        if known.code == place.code && known.point == place.point && known.witness == place.witness
        {
            return known.number as u32;
        }
        if known.code == 0 {
            return learn(ruby, lane, calls, board, place, known);
        }
    }
    0
}

/// Reads where this thread's Ruby is: six loads and two for each C frame.
#[inline]
fn ruby_place(ruby: &Ruby<'static, Direct>, offset: u64) -> Option<Place> {
    if offset == 0 {
        return None;
    }
    // SAFETY: the thread's own block; the command found the VM's pointer there.
    let thread = unsafe { *(thread_pointer().wrapping_add(offset) as *const u64) };
    let ec = ruby.running_ec(thread).ok()?;
    let cfp = ruby.current_cfp(ec).ok()?;
    let frame = ruby.frames(ec, cfp).ok()?.next()?.ok()?;
    let witness = ruby.witness(frame.iseq).ok()?;
    Some(Place {
        code: frame.iseq,
        point: frame.pc,
        witness,
        number: 0,
    })
}

#[cold]
#[inline(never)]
fn learn(
    ruby: &Ruby<'static, Direct>,
    lane: &Lane,
    calls: &Calls,
    board: &Board,
    place: Place,
    into: &mut Place,
) -> u32 {
    // Asked first: the number would come round.
    if lane.last_place.load(Ordering::Relaxed) as usize >= PLACES / 2 {
        return 0;
    }
    let number = lane.last_place.fetch_add(1, Ordering::Relaxed) + 1;
    let line = ruby.line(place.code, place.point).unwrap_or(0);
    let mut path = [0; LONGEST_NAME];
    let mut name = [0; LONGEST_NAME];
    let copy = |text: Result<vm::ruby::Text, _>, into: &mut [u8]| {
        text.ok()
            .and_then(|text| ruby.copy(text, into).ok())
            .map_or(0, |copied| copied.len)
    };
    let path_length = copy(ruby.path(place.code), &mut path);
    let name_length = copy(ruby.label(place.code), &mut name);
    let (path_words, name_words) = (
        path_length.div_ceil(8) as u64,
        name_length.div_ceil(8) as u64,
    );
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
                line,
                lengths: [path_length as u32, name_length as u32],
            },
        );
        let at = record.address(2) as *mut u8;
        at.copy_from_nonoverlapping(path.as_ptr(), path_length);
        at.add(path_words as usize * 8)
            .copy_from_nonoverlapping(name.as_ptr(), name_length);
    }
    record.end();
    *into = Place {
        number: u64::from(number),
        ..place
    };
    number
}

/// Forgets a lane's lines.
pub fn forget(lane: &Lane) {
    for at in 0..PLACES {
        // SAFETY: within the lane's table.
        unsafe { (lane.places as *mut Place).add(at).write(Place::default()) };
    }
    lane.last_place.store(0, Ordering::Relaxed);
    let _ = calls::PLACES;
}
