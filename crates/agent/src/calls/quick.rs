//! The short way of a call of which only integer registers are recorded. It uses no vector register, so that the routine
//! saves none, and calls no other function. All other calls are left to [`call`](super::call), whose checks and records are
//! the same. Used by `calls` and `system_calls::quick`.
//!
//! A test reads the code of both functions, and of [`quick_probe`](super::system_calls::quick_probe), in the finished agent
//! (`crates/lancet/tests/house/quick.rs`). They are the only functions between the routine and the guest's that leave
//! vector registers alone, so they may call no other function and must not panic.

use super::events::{self, Which};
use super::hooked::{self, wanted};
use super::record::Record;
use super::{blocks, places, pulse, ring, session, thread, ticket};
use crate::memory::follow::ours;
use crate::memory::sys;
use core::sync::atomic::Ordering;
use routine::frame::flags::ENTRY_ONLY;
use routine::quick::{ASK, DONE, UNSEEN};
use routine::{Frame, Results, Room};
use wire::calls::{Hook, Ring, kind, want};

/// The bits of `want` that a call on this way may have.
pub const PLAIN: u64 = want::ENTRY | want::RETURN | want::PLACE;

/// Handles the call of a function. Returns [`UNSEEN`], [`DONE`], or [`ASK`].
///
/// # Safety
/// Called by the routine, with the frame that it made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_enter(frame: *mut Frame, room: *const Room) -> u64 {
    // SAFETY: the routine passes its own frame and room, which live until this returns. The frame's descriptor is the first
    // part of a hook, which is never freed; the room is null or the first part of a ring, which is never unmapped.
    let (frame, hook, ring) = unsafe {
        let hook = (*frame).descriptor.cast::<Hook>();
        (&mut *frame, &*hook, room.cast::<Ring>().as_ref())
    };
    let wanted = wanted(hook);
    if wanted == 0 {
        return UNSEEN;
    }
    let Some(ring) = ring else {
        return ASK;
    };
    if wanted & want::BLOCKS != 0 {
        return blocks::enter_at_once(hook, frame, ring);
    }
    let shape = hooked::shape(hook);
    if wanted & !PLAIN != 0 || wanted & want::ENTRY == 0 || !shape.is_plain() {
        return ASK;
    }
    let session = session::number();
    if !ring::speaks(ring, thread::thread(), session)
        || wanted & want::PLACE != 0 && places::script().is_there()
    {
        return ASK;
    }
    let now = sys::ticks();
    if pulse::is_due(now) {
        return ASK;
    }
    let behind = shape.room_words();
    let Some(record) = Record::at_once(ring, kind::ENTRY, shape.entry_words(), behind) else {
        return ASK;
    };
    let which = Which {
        number: hook.number,
        lines: 0,
    };
    let stack = Frame::stack_arguments(frame).expose_provenance() as u64;
    let places = [stack, frame.return_address];
    let argument = |index| frame.argument(index);
    events::integers(&record, (which, shape), now, places, argument);
    if behind == 0 {
        record.end(shape.entry_bits());
    } else {
        record.end_before_room(ring, shape, now);
    }
    if wanted & want::RETURN == 0 || hook.flags & ENTRY_ONLY != 0 {
        return UNSEEN;
    }
    frame.ticket = ticket::quick(session, ring, now);
    DONE
}

/// Handles its return. Returns [`DONE`] or [`ASK`]. The vector registers of the results are not saved.
///
/// # Safety
/// Called by the routine, with the frame that [`quick_enter`] was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_leave(frame: *mut Frame, results: *const Results) -> u64 {
    // SAFETY: the routine passes its own frame, which lives until this returns; its descriptor is the first part of a hook,
    // which is never freed. Of the results only the general registers are initialised, and only these are read.
    let (frame, rax, rdx, hook) = unsafe {
        let frame = &*frame;
        let results = (&raw const (*results).rax, &raw const (*results).rdx);
        let hook = &*frame.descriptor.cast::<Hook>();
        (frame, *results.0, *results.1, hook)
    };
    let Some(ring) = ticket::quick_ring(frame.ticket) else {
        return ASK;
    };
    // SAFETY: `quick_enter` has put the address of this thread's ring there, and rings are never unmapped.
    let ring = unsafe { &*ours::<Ring>(ring) };
    let wanted = wanted(hook);
    if wanted & want::BLOCKS != 0 {
        return blocks::leave_at_once(hook, frame, ring, rax);
    }
    if wanted & !PLAIN != 0
        || wanted & want::RETURN == 0
        || ticket::session(frame.ticket) != session::number()
        || ring.thread.load(Ordering::Relaxed) != thread::thread()
    {
        return ASK;
    }
    let now = sys::ticks();
    if events::fill(ring, frame.ticket[2], now, rax, |_, _| rdx) {
        return DONE;
    }
    let shape = hooked::shape(hook);
    if !shape.is_plain() {
        return ASK;
    }
    let Some(record) = Record::at_once(ring, kind::RETURN, shape.return_words(), 0) else {
        return ASK;
    };
    let stack = Frame::stack_arguments(frame).expose_provenance() as u64;
    events::results(&record, hook.number, [now, stack, rax]);
    if shape.second_result() {
        record.word(events::FOLLOWS, rdx);
    }
    record.end(shape.return_bits());
    DONE
}
