//! Decides whether a call is wanted: by its caller, by `--where` and `--min-time`, and by whether its thread has a
//! ring. The command has written the conditions as words of crate `capture`.

use super::captures::{registers, returned};
use super::hooked::{Hooked, Outcome};
use super::scalars::Scalars;
use super::values::Proven;
use super::{places, ring};
use capture::condition::{Facts, holds_of};
use routine::Frame;
use vm::Memory;
use wire::calls::{Hook, Ring, want};

/// Whether the function is called from code whose calls are wanted.
#[inline]
pub fn is_called_from_wanted(hook: &Hook, frame: &Frame) -> bool {
    hook.callers == 0 || is_within(hook.callers, frame.return_address)
}

/// Whether an address lies in one of the ranges at `table`.
#[inline]
fn is_within(table: u64, address: u64) -> bool {
    let table = table as *const u64;
    // SAFETY: the command has written the table before it told the hook of it: the number of ranges, then begin and
    // end of each. It does not change in a session.
    unsafe {
        (0..*table as usize)
            .any(|at| (*table.add(1 + at * 2)..*table.add(2 + at * 2)).contains(&address))
    }
}

/// Returns the ring and the lines of a call that is wanted; `None` if it does not meet its hook's condition, or has
/// no ring. `found`: the thread's ring, if it is known.
#[inline]
pub fn at_call(call: Hooked, found: Option<&'static Ring>) -> Option<(&'static Ring, u32)> {
    // SAFETY: the hook names a condition that the command has written before, as words that do not change in a
    // session.
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

/// Whether a call that was held back until its return is wanted; it took `took` cycles, and its line passes the tests
/// `bits`.
#[inline]
pub fn at_return(call: Hooked, outcome: Outcome, took: u64, bits: u32) -> bool {
    // SAFETY: the hook names a condition that the command has written before, as words that do not change in a
    // session.
    unsafe { meets(call.hook.asks_return, call, Some(outcome), took, bits) }
}

/// # Safety
/// `count` words of a condition are mapped at `at` and do not change meanwhile.
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
    // SAFETY: the caller guarantees that `count` words of a condition are mapped at `at`; they do not change
    // meanwhile.
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
