//! Handles the call and the return of a hooked function. The routine calls this for every call, so its time is what a
//! hook costs.

use super::counts::Became;
use super::finish::{self, Ended};
use super::hooked::{Hooked, NO_VECTORS, Outcome, wanted};
use super::{
    blocks, children, counts, events, loader, locks, notices, own_hooks, pulse, ring, scripted,
    selection, session, ticket,
};
use crate::memory::follow::ours;
use crate::memory::instruction::exchange;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::frame::flags::ENTRY_ONLY;
use routine::{Frame, Results, Room, Vectors};
use wire::calls::ticket::{COUNTED, ROW_AT};
use wire::calls::{Hook, Ring, want};

/// Handles the call of a function. A result other than 0 makes the routine call [`leave`] at its return.
///
/// # Safety
/// Called by the routine, with the frame that it made.
pub unsafe extern "C" fn enter(frame: *mut Frame, vectors: *mut Vectors, room: *const Room) -> u64 {
    // SAFETY: the routine passes its own frame, vector registers and room, which live until this returns. The frame's
    // descriptor is the first part of a hook, which is never freed; the room is null or the first part of a ring, which
    // is never unmapped.
    let (frame, hook, found) = unsafe {
        let hook = (*frame).descriptor.cast::<Hook>();
        let thread = Thread {
            vectors: &*vectors,
            ring: room.cast::<Ring>().as_ref(),
        };
        (&mut *frame, &*hook, thread)
    };
    let wanted = wanted(hook);
    if wanted == 0 {
        return 0;
    }
    if wanted & want::BLOCKS != 0 {
        return blocks::enter(hook, frame, found.ring);
    }
    if wanted & want::OWN != 0 {
        return enter_own(hook, wanted, frame, found);
    }
    enter_wanted(hook, wanted, frame, found)
}

/// What the routine passes beside the frame.
#[derive(Clone, Copy)]
struct Thread<'a> {
    /// The vector registers at the call.
    vectors: &'a Vectors,
    /// The ring of the thread, if it was found.
    ring: Option<&'static Ring>,
}

/// Handles the call of a function that is hooked for ourselves, and perhaps for the user too.
#[cold]
#[inline(never)]
fn enter_own(hook: &Hook, wanted: u64, frame: &mut Frame, found: Thread) -> u64 {
    // What follows waits, and the return reads the time-stamp counter.
    if wanted & own_hooks::WAITING != 0 && locks::are_there() {
        return 0;
    }
    own_hooks::before(wanted);
    frame.ticket = ticket::of_session(session::number());
    let user = match wanted & want::EVENTS {
        0 => 0,
        _ => enter_wanted(hook, wanted, frame, found),
    };
    user | own_hooks::at_call(wanted, frame)
}

#[inline]
fn enter_wanted(hook: &Hook, wanted: u64, frame: &mut Frame, found: Thread) -> u64 {
    if !selection::is_called_from_wanted(hook, frame) {
        return 0;
    }
    let (mut number, mut kept) = (hook.number, 0);
    if wanted & want::SCRIPTED != 0 {
        match scripted::called(hook, frame) {
            Some(called) => (number, kept) = called,
            None => return 0,
        }
    }
    let call = Hooked::new(hook, wanted, frame, found.vectors);
    let Some((ring, lines)) = selection::at_call(call, found.ring) else {
        return 0;
    };
    if wanted & (want::COUNT | want::HELD) == want::COUNT {
        let now = sys::ticks();
        pulse::look(now);
        if hook.flags & ENTRY_ONLY != 0 {
            counts::add(ring, number as u32, lines, Became::of(0));
            return 0;
        }
        // That check may have closed the gate.
        let session = session::number();
        if session == 0 {
            return 0;
        }
        let Some(row) = counts::row(ring, number as u32, lines) else {
            return 0;
        };
        // The frame is marked as counted before the row is changed: a command that stops the thread in between finds
        // the call open.
        frame.ticket = ticket::counted(session, lines, ring, row, now);
        counts::begun(ring, row);
        return wanted & want::COUNT;
    }
    let ticket = ticket::pack(session::number(), lines, kept, ring);
    let mut now = sys::ticks();
    pulse::look(now);
    let number = events::Which { number, lines };
    if wanted & (want::ENTRY | want::HELD) == want::ENTRY && !events::call(ring, call, number, now)
    {
        now = ticket::UNTOLD;
    }
    frame.ticket = [ticket[0], ticket[1], now];
    wanted & (want::RETURN | want::COUNT)
}

/// Handles the return of a hooked function, called by the routine.
///
/// # Safety
/// Called by the routine, with the frame that [`enter`] was given.
pub unsafe extern "C" fn leave(frame: *mut Frame, results: *mut Results, vectors: *const Vectors) {
    let now = sys::ticks();
    // SAFETY: the routine passes its own frame and results, which live until this returns. The frame's descriptor is
    // the first part of a hook, which is never freed. The ticket's third word is aligned; the command changes it only
    // while this thread stands still.
    let (open, frame, results, hook) = unsafe {
        let open = AtomicU64::from_ptr(&raw mut (*frame).ticket[2]);
        let frame = &*frame;
        (open, frame, &*results, &*frame.descriptor.cast::<Hook>())
    };
    if wanted(hook) & want::BLOCKS != 0 {
        return blocks::leave(hook, frame, results.rax);
    }
    let counted = open.load(Ordering::Relaxed) & COUNTED != 0;
    if counted {
        let took = now.wrapping_sub(frame.ticket[2] & !COUNTED);
        let became = Became::of_function(hook, frame, results.rax, took);
        count_return(open, hook, frame, became);
    }
    let session = ticket::session(frame.ticket);
    let (ring, lines) = ticket::ring_and_lines(frame.ticket);
    let wanted = wanted(hook);
    if wanted & want::NOTICES != 0 {
        notices::at_return((wanted, hook.place), session, results.rax);
        children::at_return(wanted, session, results.rax);
    }
    // The call is of an earlier session, or was recorded by the parent of a fork.
    if session != session::number() {
        return;
    }
    if wanted & want::DEFINES != 0 {
        loader::wait();
    }
    // No event of this call was wanted, or it was counted.
    if ring == 0 || counted {
        return;
    }
    let number = match wanted & want::SCRIPTED {
        0 => hook.number,
        _ => scripted::number(hook, frame).unwrap_or(hook.number),
    };
    // SAFETY: `enter` has put the address of this thread's ring there, and rings are never unmapped.
    let ring = unsafe { &*ours::<Ring>(ring) };
    let Some((ring, lines, here)) = of_this_thread(ring, lines) else {
        return;
    };
    if frame.ticket[2] == ticket::UNTOLD {
        if wanted & want::RETURN != 0 {
            events::lose_return(ring);
        }
        return;
    }
    let vectors = match ticket::quick_ring(frame.ticket) {
        // SAFETY: for a call that did not go the short way, the routine passes the address of the saved vector
        // registers.
        None => unsafe { &*vectors },
        Some(_) => NO_VECTORS,
    };
    finish::finish(Ended {
        call: Hooked::new(hook, wanted, frame, vectors),
        ring,
        number,
        system_call: None,
        lines,
        outcome: Outcome {
            results,
            kept: ticket::kept(frame.ticket),
        },
        began: frame.ticket[2],
        now,
        here,
    });
}

/// Counts the return of a call that was counted when it began, also if the gate is closed by now: the command counts
/// those calls as open whose frames it finds in the stop in which it leaves, and clears [`COUNTED`] there.
#[inline]
fn count_return(open: &AtomicU64, hook: &Hook, frame: &Frame, became: Became) {
    let ticket = frame.ticket;
    let session = ticket::session(ticket);
    let (ring, _) = ticket::ring_and_lines(ticket);
    let row = ticket[1] >> ROW_AT;
    // SAFETY: `enter` has put the address of the ring there, and rings are never unmapped.
    let ring = unsafe { &*ours::<Ring>(ring) };
    if ring.session.load(Ordering::Relaxed) != session
        // In a fork's child that is not followed, the control page was wiped, and the table may be its parent's.
        || session::number() != session && CONTROL_PAGE.heartbeat.load(Ordering::Relaxed) == 0
        || !exchange(open, ticket[2], ticket[2] & !COUNTED)
    {
        return;
    }
    let here = ring.thread.load(Ordering::Relaxed) == super::thread::thread();
    if here && ticket::began_here(ticket) {
        counts::returned(ring, row, became);
    } else {
        count_elsewhere(ring, hook, frame, became);
    }
}

/// The same where the call began on another thread, because its coroutine was moved, or in the parent of a fork.
#[cold]
#[inline(never)]
fn count_elsewhere(began: &Ring, hook: &Hook, frame: &Frame, became: Became) {
    let number = match wanted(hook) & want::SCRIPTED {
        0 => hook.number,
        _ => scripted::number(hook, frame).unwrap_or(hook.number),
    };
    let Some(ring) = ring::mine() else {
        return;
    };
    let here = core::ptr::eq(began, ring);
    if ticket::began_here(frame.ticket) && !here {
        counts::moved(began, frame.ticket[1] >> ROW_AT);
    }
    let lines = if here {
        (frame.ticket[0] >> 32) as u32 & ticket::LINE
    } else {
        0
    };
    counts::add(ring, number as u32, wire::calls::lines(lines, 0), became);
}

/// Returns the ring of the running thread and the lines of the call there, and whether the call began on this thread. A
/// call that another thread finishes (in a coroutine that was moved) has its lines in the first thread's ring.
#[inline]
fn of_this_thread(ring: &'static Ring, lines: u32) -> Option<(&'static Ring, u32, bool)> {
    if ring.thread.load(Ordering::Relaxed) == super::thread::thread() {
        return Some((ring, lines, true));
    }
    Some((of_another()?, 0, false))
}

/// Returns the ring of the running thread, which is not the one that the call began on.
#[cold]
#[inline(never)]
fn of_another() -> Option<&'static Ring> {
    ring::mine()
}
