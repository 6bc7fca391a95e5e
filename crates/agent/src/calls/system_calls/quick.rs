//! The short way past the probes of a system call of which only integer registers, or nothing, is recorded. Like
//! [`quick`](super::super::quick) for functions, it uses no vector register and calls no other function. All other calls are
//! left to [`begins`](super::begins) and [`ends`](super::ends), whose checks and records are the same. Used by `calls`.

use super::super::counts::Became;
use super::super::events::{self, Which};
use super::super::hooked::{self, wanted};
use super::super::quick::PLAIN;
use super::super::record::Record;
use super::super::session::{self, calls};
use super::super::{counts, places, pulse, ring, thread, ticket};
use super::{R8, R9, R10, RAX, RDI, RDX, RSI, RSP, counted_as, failed, of, opened, slot};
use crate::memory::follow::ours;
use crate::memory::sys;
use core::sync::atomic::Ordering;
use routine::Room;
use routine::frame::ProbeFrame;
use routine::quick::{ASK, DONE};
use wire::calls::special::{is_special, makes_child};
use wire::calls::{CALLED, Hook, Ring, SYSTEM_CALLS, kind, want};

/// Handles a thread that passes a probe. Returns [`DONE`] or [`ASK`].
///
/// # Safety
/// Called by the routine, with the frame that it made, in which the vector registers are not saved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_probe(frame: *const ProbeFrame, room: *const Room) -> u64 {
    // SAFETY: the routine passes its own frame and room, which live until this returns; of the frame only initialised parts
    // are read. Its descriptor is the first part of a hook, which is never freed. The room is null or the first part of a
    // ring, which is never unmapped.
    let (registers, place, ring) = unsafe {
        let registers = &*(&raw const (*frame).registers);
        let place = &*(*frame).descriptor.cast::<Hook>();
        (registers, place, room.cast::<Ring>().as_ref())
    };
    let session = session::number();
    if session == 0 {
        return ASK;
    }
    match wanted(place) {
        want::SYSTEM_CALL => quick_begins(place, registers, ring, session),
        want::SYSTEM_RETURN => quick_ends(place, registers, ring, session),
        _ => ASK,
    }
}

#[inline(always)]
fn quick_begins(place: &Hook, registers: &[u64; 16], ring: Option<&Ring>, session: u32) -> u64 {
    let number = registers[RAX];
    if place.fixed == CALLED || is_special(number) {
        return ASK;
    }
    let wanted = of(place, number).map_or(0, wanted);
    let Some(ring) = ring else {
        return if wanted == 0 { if_without_ring() } else { ASK };
    };
    if opened(ring, session) != 0 {
        return ASK;
    }
    if wanted == 0 {
        // If another call is open, its entry must not be taken for this one at the return.
        return if is_open(ring) { ASK } else { DONE };
    }
    let Some(hook) = of(place, number) else {
        return ASK;
    };
    let shape = hooked::shape(hook);
    let counts = wanted & want::COUNT != 0;
    if wanted & !(PLAIN | want::COUNT | want::BARE) != 0
        || wanted & want::PLACE != 0 && places::script().is_there()
        || hook.place == SYSTEM_CALLS
        || !counts && (wanted & want::ENTRY == 0 || !shape.is_plain())
        || !ring::speaks(ring, thread::thread(), session)
    {
        return ASK;
    }
    let now = sys::ticks();
    if pulse::is_due(now) {
        return ASK;
    }
    let argument = |index| argument(registers, index);
    let at = [place.instruction, registers[RSP]];
    if counts {
        open(ring, at, hook, [now, session.into()], argument);
        return DONE;
    }
    let behind = shape.room_words();
    let Some(record) = Record::at_once(ring, kind::ENTRY, shape.entry_words(), behind) else {
        return ASK;
    };
    let which = Which {
        number: hook.number,
        lines: 0,
    };
    let places = [registers[RSP], place.instruction];
    events::integers(&record, (which, shape), now, places, argument);
    if behind == 0 {
        record.end(shape.entry_bits());
    } else {
        record.end_before_room(ring, shape, now);
    }
    open(ring, at, hook, [now, session.into()], argument);
    DONE
}

#[inline(always)]
fn quick_ends(place: &Hook, registers: &[u64; 16], ring: Option<&Ring>, session: u32) -> u64 {
    let Some(ring) = ring else {
        return if_without_ring();
    };
    if makes_child(place.fixed) || opened(ring, session) != 0 {
        return ASK;
    }
    let depth = ring.depth.load(Ordering::Relaxed);
    if depth == 0 {
        return DONE;
    }
    let last = slot(ring, depth - 1);
    // SAFETY: `slot` returns an entry of the ring's array. The ring is this thread's own, so only it and its handlers write
    // there. It is read word by word, so that no vector register is needed.
    let (instruction, stack, hook, began, ticket) = unsafe {
        (
            (&raw const (*last).instruction).read_volatile(),
            (&raw const (*last).stack).read_volatile(),
            (&raw const (*last).hook).read_volatile(),
            (&raw const (*last).began).read_volatile(),
            (&raw const (*last).ticket).read_volatile(),
        )
    };
    if (instruction, stack) != (place.instruction, registers[RSP]) {
        return ASK;
    }
    if hook == 0 || ticket as u32 != session {
        ring.depth.store(depth - 1, Ordering::Relaxed);
        return DONE;
    }
    // SAFETY: `open` or `push` has put the address of a hook there, and hooks are never freed.
    let hook = unsafe { &*ours::<Hook>(hook) };
    let wanted = wanted(hook);
    let rax = registers[RAX];
    if wanted & want::COUNT != 0 {
        let lines = (ticket >> 32) as u32;
        let plain = wanted & !(PLAIN | want::COUNT | want::BARE) == 0;
        if !plain || began == ticket::UNTOLD || !ring::speaks(ring, thread::thread(), session) {
            return ASK;
        }
        let number = counted_as(place, hook) as u32;
        let became = became(hook, wanted, rax, began);
        if !counts::add_at_once(ring, number, lines, became) {
            return ASK;
        }
        ring.depth.store(depth - 1, Ordering::Relaxed);
        return DONE;
    }
    let now = sys::ticks();
    if began == ticket::UNTOLD
        || wanted & !PLAIN != 0
        || wanted & want::RETURN == 0
        || !ring::speaks(ring, thread::thread(), session)
    {
        return ASK;
    }
    let rdx = registers[RDX];
    if !events::fill(ring, began, now, rax, |_, _| rdx) {
        let shape = hooked::shape(hook);
        if !shape.is_plain() {
            return ASK;
        }
        let Some(record) = Record::at_once(ring, kind::RETURN, shape.return_words(), 0) else {
            return ASK;
        };
        events::results(&record, hook.number, [now, stack, rax]);
        if shape.second_result() {
            record.word(events::FOLLOWS, rdx);
        }
        record.end(shape.return_bits());
    }
    ring.depth.store(depth - 1, Ordering::Relaxed);
    DONE
}

/// Returns what is known of a counted call that began at `began`.
#[inline(always)]
fn became(hook: &Hook, wanted: u64, rax: u64, began: u64) -> Became {
    let took = match wanted & want::BARE {
        0 => sys::ticks().wrapping_sub(began),
        _ => 0,
    };
    Became::of_system_call(hook, failed(rax), rax, took)
}

/// Whether a system call is open in a ring.
#[inline(always)]
fn is_open(ring: &Ring) -> bool {
    ring.depth.load(Ordering::Relaxed) != 0
}

/// Decides about a call of which nothing is wanted, by a thread whose ring was not found: nothing is to be done if it has
/// none.
#[inline(always)]
fn if_without_ring() -> u64 {
    let Some(pointer) = thread::told_pointer() else {
        return ASK;
    };
    let first = calls().rings.get(routine::room::place(pointer));
    match first.map(|known| known.load(Ordering::Acquire)) {
        Some(0) => DONE,
        _ => ASK,
    }
}

/// Returns the register of a system call's argument, 0 to 5.
#[inline(always)]
fn argument(registers: &[u64; 16], index: u64) -> u64 {
    const ORDER: [usize; 8] = [RDI, RSI, RDX, R10, R8, R9, RAX, RAX];
    registers[ORDER[index as usize & 7] & 15]
}

/// Notes a call as open, as [`push`](super::push) does, word by word.
#[inline(always)]
fn open(
    ring: &Ring,
    [instruction, stack]: [u64; 2],
    hook: &Hook,
    [began, ticket]: [u64; 2],
    argument: impl Fn(u64) -> u64,
) {
    let at = ring.depth.load(Ordering::Relaxed);
    ring.depth.store(at + 1, Ordering::Relaxed);
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    let slot = slot(ring, at);
    // SAFETY: `slot` returns an entry of the ring's array. The ring is this thread's own, so only it and its handlers write
    // there.
    unsafe {
        (&raw mut (*slot).instruction).write_volatile(instruction);
        (&raw mut (*slot).stack).write_volatile(stack);
        (&raw mut (*slot).hook)
            .write_volatile(core::ptr::from_ref(hook).expose_provenance() as u64);
        (&raw mut (*slot).began).write_volatile(began);
        (&raw mut (*slot).ticket).write_volatile(ticket);
        // Nothing is injected into a call that goes this way, but the entry may still name an earlier injection.
        (&raw mut (*slot).injected).write_volatile(0);
        let arguments = (&raw mut (*slot).arguments).cast::<u64>();
        for index in 0..6 {
            arguments.add(index).write_volatile(argument(index as u64));
        }
    }
}

#[cfg(test)]
mod tests;
