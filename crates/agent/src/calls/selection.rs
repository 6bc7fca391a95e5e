//! Decides whether a call is wanted: by its caller, by `--where` and `--min-time`, and by whether its thread has a
//! ring. The command has written the conditions as words of crate `capture`. Used by `call`, `finish`, `probes` and
//! others.

use super::captures::{registers, returned};
use super::hooked::{Hooked, Outcome};
use super::scalars::Scalars;
use super::thread::thread;
use super::{places, ring, session};
use crate::memory::copied::Copied;
use crate::memory::follow::ours;
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
    let table = ours::<u64>(table);
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
    let thread = thread();
    // SAFETY: the hook names a condition that the command has written before, as words that do not change in a
    // session.
    let meets = |lines| unsafe {
        let asked = Asked {
            outcome: None,
            elapsed: 0,
            lines,
            // Another thread may have the address of one that has ended by now, and another stack.
            ring: found.filter(|ring| ring::speaks(ring, thread, session::number())),
        };
        meets(call.hook.asks_call, call, asked)
    };
    if call.wants(want::ASKS) && !meets(0) {
        return None;
    }
    let ring = ring::mine_from(found, thread)?;
    let (lines, bits) = if call.wants(want::PLACE) {
        places::current(ring)
    } else {
        (0, 0)
    };
    (!call.wants(want::ASKS_LINE) || meets(bits)).then_some((ring, lines))
}

/// Whether a call that was held back until its return is wanted; it took `took` cycles, and its line passes the tests
/// `lines`. `ring` is the running thread's.
#[inline]
pub fn at_return(call: Hooked, outcome: Outcome, (took, lines): (u64, u32), ring: &Ring) -> bool {
    let asked = Asked {
        outcome: Some(outcome),
        elapsed: took,
        lines,
        ring: Some(ring),
    };
    // SAFETY: the hook names a condition that the command has written before, as words that do not change in a
    // session.
    unsafe { meets(call.hook.asks_return, call, asked) }
}

/// What a condition is asked of, beside the call itself.
struct Asked<'a> {
    /// What the function returned, if it has.
    outcome: Option<Outcome<'a>>,
    /// How many cycles the call took.
    elapsed: u64,
    /// The tests that its line passes, a bit each.
    lines: u32,
    /// The running thread's ring, if it is known.
    ring: Option<&'a Ring>,
}

/// # Safety
/// `count` words of a condition are mapped at `at` and do not change meanwhile.
#[inline]
unsafe fn meets([at, count]: [u64; 2], call: Hooked, asked: Asked) -> bool {
    if count == 0 {
        return true;
    }
    // SAFETY: the caller guarantees that `count` words of a condition are mapped at `at`; they do not change
    // meanwhile.
    let words = unsafe { core::slice::from_raw_parts(ours::<u64>(at), count as usize) };
    let memory = Copied::above(call.stack, asked.ring);
    let read = |at, into: &mut [u8]| match memory.read(at, into) {
        Ok(()) => into.len(),
        Err(_) => 0,
    };
    let registers = registers(&call);
    let returned = asked.outcome.map(|outcome| returned(outcome.results));
    let facts = Facts {
        registers: &registers,
        returned: returned.as_ref(),
        elapsed: asked.elapsed,
        lines: asked.lines,
    };
    let mut values = Scalars {
        memory: &memory,
        registers: registers.gp,
        kept: asked.outcome.map_or(0, |outcome| outcome.kept),
    };
    holds_of(words, facts, read, &mut values)
}

#[cfg(test)]
mod tests;
