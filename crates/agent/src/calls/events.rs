//! Writes the records of events, calls and returns, into a ring, for all kinds of hooks (`call`, `finish`, `probes`, `system_calls`). Layout:
//! `wire::calls::record`. Used by `quick`, `system_calls::quick`, `finish` and others.

use super::hooked::{self, Hooked, Outcome};
use super::record::{Record, Room};
use super::session::calls;
use super::{captures, x87};
use captures::Destination;
use core::sync::atomic::Ordering;
use wire::calls::record::{self, Shape};
use wire::calls::{Ring, kind, want};

/// The number of a hook, and the lines of its call.
#[derive(Clone, Copy)]
pub struct Which {
    pub number: u64,
    pub lines: u32,
}

/// Returns how many words a record has for copies; 0 if the program is empty.
#[inline]
fn room(program: [u64; 2]) -> u64 {
    if program[1] == 0 { 0 } else { calls().room }
}

/// Records a call that began at `ticks`, and returns whether there was room. It is inlined, because passing the context would cost each
/// call ten loads and stores.
#[inline(always)]
pub fn call(ring: &Ring, call: Hooked, which: Which, ticks: u64) -> bool {
    let shape = hooked::shape(call.hook);
    let (kind, behind) = if call.wants(want::HELD) {
        (kind::HELD, 0)
    } else {
        (kind::ENTRY, shape.room_words())
    };
    let program = call.hook.at_entry;
    let words = shape.entry_words() + room(program);
    let Some(mut record) = Record::begin(ring, kind, words, behind) else {
        return false;
    };
    let places = [call.stack, call.frame.return_address];
    let argument = |index| call.frame.argument(index);
    let mut next = integers(&record, (which, shape), ticks, places, argument);
    for xmm in call.vectors.iter().take(shape.vectors() as usize) {
        record.word(next, xmm[0]);
        next += 1;
    }
    if program[1] != 0 {
        // SAFETY: the hook names a program that the command has written before, and does not change while hooks may run it.
        let end = unsafe {
            captures::copy(
                program,
                call,
                None,
                Destination {
                    ring,
                    record: &record,
                    from: next,
                },
            )
        };
        record.shorten(ring, end);
    }
    if behind == 0 {
        record.end(shape.entry_bits());
    } else {
        record.end_before_room(ring, shape, ticks);
    }
    true
}

/// Writes what the record of a call holds before its vector registers, and returns where those begin. The call is given by its stack
/// pointer, its return address, and a function that returns the value of an argument's register by index. No vector register is used.
#[inline(always)]
pub fn integers(
    record: &Record,
    (which, shape): (Which, Shape),
    ticks: u64,
    [stack, caller]: [u64; 2],
    argument: impl Fn(u64) -> u64,
) -> u64 {
    let Which { number, lines } = which;
    let [time, stack, caller] = record::call(number, lines, ticks, stack, caller);
    record.word(0, time);
    record.word(1, stack);
    record.word(2, caller);
    let first = record::ENTRY - 1;
    let count = shape.integers();
    if shape.is_narrow() {
        for pair in 0..count.div_ceil(2) {
            let [low, high] = [argument(pair * 2), argument(pair * 2 + 1)];
            record.word(first + pair, low & 0xffff_ffff | high << 32);
        }
        return first + count.div_ceil(2);
    }
    for index in 0..count {
        record.word(first + index, argument(index));
    }
    first + count
}

/// Writes what the record of a return holds up to rax.
#[inline(always)]
pub fn results(record: &Record, number: u64, [now, stack, rax]: [u64; 3]) {
    let [time, stack] = record::back(number, now, stack);
    record.word(0, time);
    record.word(1, stack);
    record.word(2, rax);
}

/// Index in the body of a return's record of the words behind rax.
pub const FOLLOWS: u64 = record::RETURN;

/// Counts the return of a call as lost whose own record found no room: a reader could not tell what returns.
#[cold]
pub fn lose_return(ring: &Ring) {
    ring.written.lost.fetch_add(1, Ordering::Relaxed);
}

/// Fills the room behind the record of a call that began on this thread at `began`, if nothing was recorded since and it did not take too
/// long. Returns whether it did. `rest` returns the words that follow rax, by index.
#[inline(always)]
pub fn fill(ring: &Ring, began: u64, now: u64, rax: u64, rest: impl Fn(Shape, u64) -> u64) -> bool {
    let took = now.wrapping_sub(began);
    if took >> 32 != 0 {
        return false;
    }
    let Some(room) = Room::of(ring, began) else {
        return false;
    };
    let shape = room.shape;
    if shape.has_narrow_result() {
        room.word(0, took | rax << 32);
    } else {
        room.word(0, took);
        room.word(1, rax);
    }
    let first = 1 + u64::from(!shape.has_narrow_result());
    for index in 0..u64::from(shape.second_result()) + shape.vector_results() {
        room.word(first + index, rest(shape, index));
    }
    room.end();
    true
}

/// Returns what follows rax in the record of a return, by index: rdx if it is wanted, then vector registers.
#[inline]
fn follows(outcome: Outcome, shape: Shape, index: u64) -> u64 {
    let results = outcome.results;
    match index.checked_sub(u64::from(shape.second_result())) {
        None => results.rdx,
        Some(vector) => results.xmm[vector as usize & 1][0],
    }
}

/// Records a return at `now`, of a call that began at `began` on this thread (0 = or on another). It is inlined for the same reason as
/// [`call`].
#[inline(always)]
pub fn returned(ring: &Ring, call: Hooked, outcome: Outcome, number: u64, [began, now]: [u64; 2]) {
    let rax = outcome.results.rax;
    let rest = |shape, index| follows(outcome, shape, index);
    if began != 0 && fill(ring, began, now, rax, rest) {
        return;
    }
    let shape = hooked::shape(call.hook);
    let program = call.hook.at_return;
    let words = shape.return_words() + room(program);
    let Some(mut record) = Record::begin(ring, kind::RETURN, words, 0) else {
        return;
    };
    results(&record, number, [now, call.stack, rax]);
    let follow = u64::from(shape.second_result()) + shape.vector_results();
    for index in 0..follow {
        record.word(FOLLOWS + index, rest(shape, index));
    }
    let mut next = FOLLOWS + follow;
    if shape.x87_words() != 0 {
        // SAFETY: the record was reserved with the words of its shape, which include `x87_words()` words from `next` on.
        unsafe { x87::copy(record.address(next), shape.x87_words()) };
        next += shape.x87_words();
    }
    if program[1] != 0 {
        // SAFETY: the hook names a program that the command has written before, and does not change while hooks may run it.
        let end = unsafe {
            captures::copy(
                program,
                call,
                Some(outcome),
                Destination {
                    ring,
                    record: &record,
                    from: next,
                },
            )
        };
        record.shorten(ring, end);
    }
    record.end(shape.return_bits());
}

#[cfg(test)]
mod tests;
