//! The records of events: a call, a return. Layout: `wire::calls::{Entry, Return}`.

use super::hooked::{Hooked, Outcome};
use super::record::Record;
use super::session::calls;
use super::{captures, x87};
use core::sync::atomic::Ordering;
use wire::calls::{Entry, Return, Ring, kind, want};

/// Words of an [`Entry`] and of a [`Return`].
const ENTRY_WORDS: u64 = (size_of::<Entry>() / 8) as u64;
pub const RETURN_WORDS: u64 = (size_of::<Return>() / 8) as u64;

/// The number of a hook and the lines of its call, as [`Entry::hook`] has them.
#[inline]
pub fn which(number: u64, lines: u32) -> u64 {
    number | u64::from(lines) << 32
}

/// Words that a record has for copies, where there are any to make.
#[inline]
fn room(program: [u64; 2]) -> u64 {
    if program[1] == 0 { 0 } else { calls().room }
}

/// Records a call that began at `ticks`; whether there was room. Inlined, because handing a context on would cost each call ten loads and
/// stores.
#[inline(always)]
pub fn call(ring: &Ring, call: Hooked, which: u64, ticks: u64) -> bool {
    let kind = if call.wants(want::HELD) {
        kind::HELD
    } else {
        kind::ENTRY
    };
    let floats = if call.wants(want::FLOATS) { 8 } else { 0 };
    let fixed = ENTRY_WORDS + floats;
    let Some(mut record) = Record::begin(ring, kind, fixed + room(call.hook.at_entry)) else {
        return false;
    };
    let frame = call.frame;
    let entry = Entry {
        hook: which,
        ticks,
        frame: call.stack,
        caller: frame.return_address,
        registers: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        rax: frame.rax,
    };
    // SAFETY: the parts add up to the body; the command wrote the program.
    unsafe {
        record.part(0, entry);
        for (index, xmm) in (0..floats).zip(call.vectors) {
            record.word(ENTRY_WORDS + index, xmm[0]);
        }
        if call.hook.at_entry[1] != 0 {
            let end = captures::copy(call.hook.at_entry, call, None, &record, fixed);
            record.shorten(ring, end);
        }
    }
    record.end();
    true
}

/// Counts the return of a call as lost whose own record found no room: nobody could tell what returns.
#[cold]
pub fn lose_return(ring: &Ring) {
    ring.lost.fetch_add(1, Ordering::Relaxed);
}

/// Records a return at `ticks`. Inlined for the same reason.
#[inline(always)]
pub fn returned(ring: &Ring, call: Hooked, outcome: Outcome, number: u64, ticks: u64) {
    let floats = if call.wants(want::FLOATS) { 2 } else { 0 };
    let x87 = match call.wanted & (want::X87 | want::X87_PAIR) {
        0 => 0,
        want::X87 => 2,
        _ => 4,
    };
    let fixed = RETURN_WORDS + floats + x87;
    let body = fixed + room(call.hook.at_return);
    let Some(mut record) = Record::begin(ring, kind::RETURN, body) else {
        return;
    };
    let results = outcome.results;
    let event = Return {
        hook: number | x87 << 32,
        ticks,
        frame: call.stack,
        registers: [results.rax, results.rdx],
    };
    // SAFETY: the parts add up to the body; the command wrote the program.
    unsafe {
        record.part(0, event);
        for (index, xmm) in (0..floats).zip(&results.xmm) {
            record.word(RETURN_WORDS + index, xmm[0]);
        }
        if x87 != 0 {
            x87::copy(record.address(RETURN_WORDS + floats), x87);
        }
        if call.hook.at_return[1] != 0 {
            let end = captures::copy(call.hook.at_return, call, Some(outcome), &record, fixed);
            record.shorten(ring, end);
        }
    }
    record.end();
}
