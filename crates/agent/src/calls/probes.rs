//! Handles probes in mid-function: those around system calls (`system_calls`), and USDT probes, which are recorded
//! like a call that returns at once, with the probe's arguments as its own. Used by `calls`.

use super::counts::Became;
use super::events::Which;
use super::hooked::{Hooked, NO_VECTORS, as_call, wanted};
use super::record::Record;
use super::{children, counts, events, ring, selection, session, system_calls};
use crate::memory::copied::Copied;
use crate::memory::follow::ours;
use crate::memory::sys;
use routine::frame::ProbeFrame;
use vm::Memory;
use wire::calls::{Hook, Ring, kind, operand, record, want};

/// The processor's number of the register.
const RSP: usize = 4;

/// Handles a thread that passes a probe.
///
/// # Safety
/// Called by the routine, with the frame that it made.
pub unsafe extern "C" fn probe(frame: *mut ProbeFrame) {
    // SAFETY: the routine passes its own frame, which lives until this returns; its descriptor is the first part of a
    // hook, which is never freed.
    let (made, frame, hook) = unsafe {
        let made = frame;
        let frame = &*made;
        (made, frame, &*frame.descriptor.cast::<Hook>())
    };
    if session::number() == 0 {
        // The gate has been closed meanwhile, or was wiped.
        return children::at_probe();
    }
    let wanted = wanted(hook);
    if wanted & want::BACK != 0 {
        return after_vfork(hook, frame);
    }
    if wanted & (want::SYSTEM_CALL | want::SYSTEM_RETURN) != 0 {
        return match wanted & want::SYSTEM_CALL {
            0 => system_calls::ends(hook, frame),
            // SAFETY: `made` is the frame that the routine has passed, which lives until this returns.
            _ => unsafe { system_calls::begins(hook, made) },
        };
    }
    if wanted & want::EVENTS == 0 {
        return;
    }
    // A probe that is only counted needs no arguments, and reading one may cost a system call.
    let arguments = match wanted & (want::COUNT | want::ASKS | want::ASKS_LINE) {
        want::COUNT => [0; operand::MOST],
        _ => arguments(hook, frame),
    };
    let frame = as_call(hook, arguments, 0, hook.place);
    let call = Hooked::new(hook, wanted, &frame, NO_VECTORS);
    let Some((ring, lines)) = selection::at_call(call, None) else {
        return;
    };
    if wanted & want::COUNT != 0 {
        return counts::add(ring, hook.number as u32, lines, Became::of(0));
    }
    let number = hook.number;
    if events::call(ring, call, Which { number, lines }, sys::ticks()) {
        returned(ring, call);
    } else if call.wants(want::RETURN) {
        events::lose_return(ring);
    }
}

/// Handles the returns of `vfork`: first in the child, in its parent's memory and with its thread pointer, then in
/// the parent.
fn after_vfork(hook: &Hook, frame: &ProbeFrame) {
    /// Results of the kernel from this one on are errors.
    const ERRORS: u64 = -4095i64 as u64;
    let Some(ring) = ring::mine() else {
        return;
    };
    let (result, pid) = (frame.registers[0], sys::process_id());
    if result == 0
        && let Some(record) = Record::begin(ring, kind::FORK, 3, 0)
    {
        record.word(0, u64::from(pid));
        record.word(1, sys::ticks());
        record.end(0);
    }
    // The ring belongs to the parent's thread; this records that another thread writes to it.
    let Some(record) = Record::begin(ring, kind::THREAD, 2, 0) else {
        return;
    };
    record.word(0, u64::from(sys::thread_id()));
    record.end(0);
    let result = if result >= ERRORS { u64::MAX } else { result };
    // The return address is on the stack again.
    back(ring, hook, frame.registers[RSP] + 8, result);
}

/// Records the return of a probe that was recorded as a call, at once and without results.
fn returned(ring: &Ring, call: Hooked) {
    back(ring, call.hook, call.stack, 0);
}

/// Records a return with a result and no other registers.
fn back(ring: &Ring, hook: &Hook, stack: u64, result: u64) {
    let Some(record) = Record::begin(ring, kind::RETURN, record::RETURN + 1, 0) else {
        return;
    };
    let [time, stack] = record::back(hook.number, sys::ticks(), stack);
    for (index, word) in (0..).zip([time, stack, result]) {
        record.word(index, word);
    }
    record.end(0);
}

/// Returns the values of a probe's arguments; missing ones are 0.
fn arguments(hook: &Hook, frame: &ProbeFrame) -> [u64; operand::MOST] {
    let [at, count] = hook.at_return;
    let mut values = [0; operand::MOST];
    let memory = Copied::above(frame.registers[RSP], ring::known());
    for (index, value) in values.iter_mut().enumerate().take(count as usize / 2) {
        // SAFETY: the command has written `count` words at `at` before it told the hook of them, and `index` is less
        // than half of that.
        let words = unsafe { *ours::<[u64; 2]>(at).add(index) };
        *value = argument(words, frame, &memory);
    }
    values
}

fn argument([how, number]: [u64; 2], frame: &ProbeFrame, memory: &Copied) -> u64 {
    let part = |at: u32| how >> at & 0xff;
    let register = |number: u64| match number {
        operand::NONE => 0,
        number => frame.registers[number as usize & 15],
    };
    let value = match part(0) {
        operand::REGISTER => register(part(8)) >> (part(48) & 63),
        operand::VECTOR => frame.xmm[part(8) as usize & 15][0],
        operand::CONSTANT => number,
        _ => {
            let index = register(part(16)).wrapping_mul(part(24));
            let at = register(part(8)).wrapping_add(index).wrapping_add(number);
            let mut bytes = [0; 8];
            let size = (part(32) as usize).clamp(1, 8);
            // Memory that cannot be read counts as 0.
            let _ = bytes.get_mut(..size).map(|into| memory.read(at, into));
            u64::from_le_bytes(bytes)
        }
    };
    let unused = 64 - 8 * (part(32) as u32).clamp(1, 8);
    match part(40) {
        0 => value << unused >> unused,
        _ => ((value << unused) as i64 >> unused) as u64,
    }
}
