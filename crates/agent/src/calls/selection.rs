//! Whether a call is wanted: by where it is called from, `--where` and `--min-time`, and whether its thread has a
//! ring. The command wrote the conditions as words of crate `capture`.

use super::captures::{registers, returned};
use super::hooked::{Hooked, Outcome};
use super::scalars::Scalars;
use super::values::Proven;
use super::{places, ring};
use capture::condition::{Facts, holds_of};
use routine::Frame;
use vm::Memory;
use wire::calls::{Hook, Ring, want};

/// Whether the function is called from where calls are wanted from.
#[inline]
pub fn is_called_from_wanted(hook: &Hook, frame: &Frame) -> bool {
    hook.callers == 0 || is_within(hook.callers, frame.return_address)
}

/// Whether an address lies in one of the ranges at `table`.
#[inline]
fn is_within(table: u64, address: u64) -> bool {
    let table = table as *const u64;
    // SAFETY: the command wrote the table before it told the hook of it: how many ranges, then begin and end of each.
    unsafe {
        (0..*table as usize)
            .any(|at| (*table.add(1 + at * 2)..*table.add(2 + at * 2)).contains(&address))
    }
}

/// The ring and the lines of a call that is wanted; `None` if it does not meet its hook's condition, or has no ring.
/// `found`: that of the thread, if it is known.
#[inline]
pub fn at_call(call: Hooked, found: Option<&'static Ring>) -> Option<(&'static Ring, u32)> {
    // SAFETY: the command wrote the condition before the hook was told of it.
    let meets = |bits| unsafe { meets(call.hook.asks_call, call, None, 0, bits) };
    if call.wants(want::ASKS) && !meets(0) {
        return None;
    }
    let ring = ring::mine_from(found)?;
    let (lines, bits) = if call.wants(want::PLACE) {
        places::current(ring)
    } else {
        (0, 0)
    };
    (!call.wants(want::ASKS_LINE) || meets(bits)).then_some((ring, lines))
}

/// Whether a call that was held until its return is wanted; it took so many cycles, and its line meets these tests.
#[inline]
pub fn at_return(call: Hooked, outcome: Outcome, took: u64, bits: u32) -> bool {
    // SAFETY: the command wrote the condition before the hook was told of it.
    unsafe { meets(call.hook.asks_return, call, Some(outcome), took, bits) }
}

/// # Safety
/// `count` words of a condition stand at `at`.
#[inline]
unsafe fn meets(
    [at, count]: [u64; 2],
    call: Hooked,
    outcome: Option<Outcome>,
    elapsed: u64,
    lines: u32,
) -> bool {
    if count == 0 {
        return true;
    }
    // SAFETY: the caller's promise.
    let words = unsafe { core::slice::from_raw_parts(at as *const u64, count as usize) };
    let proven = Proven::new();
    let read = |at, into: &mut [u8]| match proven.read(at, into) {
        Ok(()) => into.len(),
        Err(_) => 0,
    };
    let registers = registers(&call);
    let returned = outcome.map(|outcome| returned(outcome.results));
    let facts = Facts {
        registers: &registers,
        returned: returned.as_ref(),
        elapsed,
        lines,
    };
    let mut values = Scalars {
        proven: &proven,
        registers: registers.gp,
        kept: outcome.map_or(0, |outcome| outcome.kept),
    };
    holds_of(words, facts, read, &mut values)
}
