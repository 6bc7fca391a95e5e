//! What a hooked function does on its way in and out: `enter` before it, `leave` after it. Both run on the
//! guest's own stack, in any thread, at any point of the program where a C function may be called, also
//! inside the allocator and in signal handlers. So they call nobody, lock nothing, allocate by `mmap`
//! only, and follow no pointer but those the VM or the ABI vouches for.

mod captures;
mod counts;
mod lane;
mod languages;
mod loader;
mod places;
mod pulse;
mod scripted;
mod values;

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Record;
use routine::frame::flags::ENTRY_ONLY;
use routine::frame::{Frame, ProbeFrame, Results};
use wire::calls::{AREAS, Area, Calls, Entry, Hook, LANES, Lane, Return, kind, want};

/// What the hooks are told; written by the command before `Board::calls` is set.
#[unsafe(no_mangle)]
static mut CALLS: Calls = Calls {
    lanes: [const { AtomicU64::new(0) }; LANES],
    ring: 0,
    most_wait: 0,
    tid_offset: 0,
    state_offset: 0,
    language: 0,
    facts: [0; wire::calls::FACTS],
    room: 0,
    r_debug: 0,
    wary: AtomicU64::new(0),
    unlaned: AtomicU64::new(0),
    areas: [Area {
        at: 0,
        size: 0,
        used: 0,
        holds: 0,
    }; AREAS],
};

routine::routines! {
    enter = enter,
    leave = leave,
    probe = probe,
    gate = crate::BOARD,
    offset = core::mem::offset_of!(wire::Board, calls),
}

const _: () = {
    use core::mem::offset_of;
    use routine::frame::Descriptor;
    assert!(offset_of!(Hook, original) == offset_of!(Descriptor, original));
    assert!(offset_of!(Hook, flags) == offset_of!(Descriptor, flags));
    assert!(offset_of!(Hook, copied) == offset_of!(Descriptor, copied));
    assert!(offset_of!(Hook, number) == offset_of!(Descriptor, payload));
    assert!(offset_of!(Hook, place) == offset_of!(Descriptor, site));
};

/// Words of an [`Entry`] and of a [`Return`].
const ENTRY_WORDS: u64 = (size_of::<Entry>() / 8) as u64;
const RETURN_WORDS: u64 = (size_of::<Return>() / 8) as u64;

/// In the first word of a frame's ticket: the session, from bit 32 on the line, from here on what is kept of a call of
/// the VM's own.
const KEPT_AT: u32 = 64 - values::KEPT;
const PLACE: u32 = (1 << (KEPT_AT - 32)) - 1;
const _: () = assert!(wire::calls::PLACES / 2 <= PLACE as usize);

/// A function is called: tells it, if that is wanted; whether its return is wanted too.
///
/// # Safety
/// Called by the routine, with the frame it made.
unsafe extern "C" fn enter(frame: *mut Frame) -> u64 {
    // SAFETY: the frame is the routine's; its descriptor is the first part of a hook, which is never freed.
    let (frame, hook) = unsafe {
        let hook = (*frame).descriptor.cast::<Hook>();
        (&mut *frame, &*hook)
    };
    let board = &crate::BOARD;
    // SAFETY: the command changes it while threads run; an aligned word is read whole.
    let wanted = unsafe { (&raw const hook.want).read_volatile() };
    if wanted == 0 {
        return 0;
    }
    // SAFETY: written before the gate was opened.
    let calls = unsafe { &*(&raw const CALLS) };
    if wanted & want::LOADER != 0 {
        loader::changed(calls, board);
        return 0;
    }
    if wanted & want::DEFINES != 0 {
        frame.ticket[0] = board.calls.load(Ordering::Relaxed).into();
        return want::RETURN;
    }
    let (mut number, mut kept) = (hook.number, 0);
    if wanted & want::SCRIPTED != 0 {
        match scripted::called(hook, frame) {
            Some(called) => (number, kept) = called,
            None => return 0,
        }
    }
    let Some(lane) = lane::mine(calls, board) else {
        return 0;
    };
    let place = match wanted & want::PLACE {
        0 => 0,
        _ => places::current(lane, calls, board),
    };
    let at = u64::from(place) << 32;
    let session = u64::from(board.calls.load(Ordering::Relaxed));
    frame.ticket[0] = session | at | kept << KEPT_AT;
    frame.ticket[1] = core::ptr::from_ref(lane).addr() as u64;
    if wanted & want::ENTRY != 0 {
        tell_call(lane, calls, hook, frame, number | at, wanted);
    }
    if wanted & want::COUNT != 0 && hook.flags & ENTRY_ONLY != 0 {
        counts::add(lane, number as u32, place, 0);
    }
    let now = sys::ticks();
    pulse::look(board, now);
    frame.ticket[2] = now;
    wanted & (want::RETURN | want::COUNT)
}

/// Words that a record has for copies.
#[inline]
fn room(calls: &Calls, program: [u64; 2]) -> u64 {
    if program[1] == 0 { 0 } else { calls.room }
}

/// Copies st(0), ten bytes, and leaves it where it is.
///
/// # Safety
/// There is room at `at`, and the function returns a long double.
#[inline]
unsafe fn look_at_st0(at: u64) {
    // SAFETY: the caller's promise; what is popped is pushed again.
    unsafe {
        core::arch::asm!("fstp tbyte ptr [{at}]", "fld tbyte ptr [{at}]", at = in(reg) at, options(nostack))
    };
}

#[inline]
fn tell_call(lane: &Lane, calls: &Calls, hook: &Hook, frame: &Frame, which: u64, wanted: u64) {
    let floats = if wanted & want::FLOATS != 0 { 8 } else { 0 };
    let fixed = ENTRY_WORDS + floats;
    let body = fixed + room(calls, hook.at_entry);
    let Some(mut record) = Record::begin(lane, calls, &crate::BOARD, kind::ENTRY, body) else {
        return;
    };
    let arguments = Frame::stack_arguments(frame);
    let entry = Entry {
        hook: which,
        ticks: sys::ticks(),
        frame: arguments.addr() as u64,
        caller: frame.return_address,
        registers: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        rax: frame.rax,
    };
    // SAFETY: the parts add up to `body`; the command wrote the program.
    unsafe {
        record.part(0, entry);
        for (index, xmm) in (0..floats).zip(&frame.xmm) {
            record.word(ENTRY_WORDS + index, xmm[0]);
        }
        if hook.at_entry[1] != 0 {
            let end = captures::copy(hook.at_entry, frame, None, &record, fixed, 0);
            record.shorten(lane, end);
        }
    }
    record.end();
}

/// It has returned.
///
/// # Safety
/// Called by the routine, with the frame that `enter` was given.
unsafe extern "C" fn leave(frame: *mut Frame, results: *mut Results) {
    let now = sys::ticks();
    // SAFETY: as in `enter`.
    let (frame, results, hook) = unsafe {
        let frame = &*frame;
        (frame, &*results, &*frame.descriptor.cast::<Hook>())
    };
    let [ticket, lane, began] = frame.ticket;
    let board = &crate::BOARD;
    // Of a session before this one, or told to a fork's parent.
    if ticket as u32 != board.calls.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: as in `enter`.
    let (calls, wanted) = unsafe { (&*(&raw const CALLS), (&raw const hook.want).read_volatile()) };
    if wanted & want::DEFINES != 0 {
        return loader::wait(board);
    }
    let number = match wanted & want::SCRIPTED {
        0 => hook.number,
        _ => scripted::number(hook, frame).unwrap_or(hook.number),
    };
    // SAFETY: `enter` put the lane there, which is never unmapped.
    let lane = unsafe { &*(lane as *const Lane) };
    // A frame that another thread finishes (a coroutine that was moved): the line's number is the first one's.
    let (lane, place) = match lane.thread.load(Ordering::Relaxed) == lane::thread_pointer() {
        true => (lane, (ticket >> 32) as u32 & PLACE),
        false => match lane::mine(calls, board) {
            Some(lane) => (lane, 0),
            None => return,
        },
    };
    if wanted & want::COUNT != 0 {
        return counts::add(lane, number as u32, place, now.wrapping_sub(began));
    }
    if wanted & want::RETURN == 0 {
        return;
    }
    let floats = if wanted & want::FLOATS != 0 { 2 } else { 0 };
    let x87 = if wanted & want::X87 != 0 { 2 } else { 0 };
    let fixed = RETURN_WORDS + floats + x87;
    let body = fixed + room(calls, hook.at_return);
    let Some(mut record) = Record::begin(lane, calls, board, kind::RETURN, body) else {
        return;
    };
    let told = Return {
        hook: number,
        ticks: now,
        frame: Frame::stack_arguments(frame).addr() as u64,
        registers: [results.rax, results.rdx],
    };
    // SAFETY: the parts add up to `body`.
    unsafe {
        record.part(0, told);
        for (index, xmm) in (0..floats).zip(&results.xmm) {
            record.word(RETURN_WORDS + index, xmm[0]);
        }
        if x87 != 0 {
            record.word(RETURN_WORDS + floats + 1, 0);
            look_at_st0(record.address(RETURN_WORDS + floats));
        }
        if hook.at_return[1] != 0 {
            let end = captures::copy(
                hook.at_return,
                frame,
                Some(results),
                &record,
                fixed,
                ticket >> KEPT_AT,
            );
            record.shorten(lane, end);
        }
    }
    record.end();
}

/// A probe in mid-function: none is set yet.
///
/// # Safety
/// Called by the routine.
unsafe extern "C" fn probe(_frame: *mut ProbeFrame) {}

/// A new session begins: what the hooks read is in place. Called by a borrowed thread, all others stand still.
#[unsafe(no_mangle)]
extern "C" fn open_calls(_: u64) -> u64 {
    // SAFETY: the gate is closed.
    places::open(unsafe { &*(&raw const CALLS) });
    0
}
