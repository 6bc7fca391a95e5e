//! Counts or records a call of a hooked function that has returned. Used by `call` and `system_calls`.

use super::counts::Became;
use super::events::Which;
use super::hooked::{Hooked, Outcome};
use super::{counts, events, places, selection};
use wire::calls::{Ring, want};

/// A call that has returned.
pub struct Ended<'a> {
    pub call: Hooked<'a>,
    pub ring: &'a Ring,
    /// The number of the function in records.
    pub number: u64,
    /// For a system call, whether it returned an error; `None` = it is a function.
    pub system_call: Option<bool>,
    /// The lines of the call, packed by `wire::calls::lines`; 0 = none.
    pub lines: u32,
    pub outcome: Outcome<'a>,
    /// Time-stamp counter at the call and at the return.
    pub began: u64,
    pub now: u64,
    /// Whether the call began on the running thread.
    pub here: bool,
}

/// Records or counts the return. If the call itself was held back until now, it is
/// recorded first.
#[inline(always)]
pub fn finish(ended: Ended) {
    let Ended {
        call,
        ring,
        number,
        lines,
        outcome,
        ..
    } = ended;
    let took = ended.now.wrapping_sub(ended.began);
    if call.wants(want::HELD) {
        let meets = || {
            let bits = if call.wants(want::ASKS_LINE) {
                places::current(ring).1
            } else {
                0
            };
            selection::at_return(call, outcome, (took, bits), ring)
        };
        if took < call.hook.least_ticks || !meets() {
            return;
        }
        if !call.wants(want::COUNT)
            && !events::call(ring, call, Which { number, lines }, ended.began)
        {
            if call.wants(want::RETURN) {
                events::lose_return(ring);
            }
            return;
        }
    }
    if call.wants(want::COUNT) {
        let result = outcome.results.rax;
        let became = match ended.system_call {
            Some(failed) => Became::of_system_call(call.hook, failed, result, took),
            None => Became::of_function(call.hook, call.frame, result, took),
        };
        counts::add(ring, number as u32, lines, became);
    } else if call.wants(want::RETURN) {
        let began = if ended.here { ended.began } else { 0 };
        events::returned(ring, call, outcome, number, [began, ended.now]);
    }
}
