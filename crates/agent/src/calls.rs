//! What a hooked function does on its way in and out: `enter` before it, `leave` after it. Both run on the
//! guest's own stack, in any thread, at any point of the program where a C function may be called, also
//! inside the allocator and in signal handlers. So they call nobody, lock nothing, allocate by `mmap`
//! only, and follow no pointer but those the VM or the ABI vouches for.

mod asked;
mod captures;
mod counts;
mod lane;
mod languages;
mod loader;
mod notices;
mod places;
mod pool;
mod probes;
mod pulse;
mod scalars;
mod scripted;
mod system_calls;
mod values;

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Record;
use routine::frame::flags::ENTRY_ONLY;
use routine::frame::{Frame, Results};
use wire::calls::{
    AREAS, Area, Calls, Entry, Hook, LANES, Lane, Pool, Return, kind, library_line, told_line, want,
};

/// What the hooks are told; written by the command before `Board::calls` is set.
#[unsafe(no_mangle)]
static mut CALLS: Calls = Calls {
    lanes: [const { AtomicU64::new(0) }; LANES],
    made: AtomicU64::new(0),
    unlaned: AtomicU64::new(0),
    sweep: AtomicU64::new(0),
    pool: Pool {
        at: 0,
        slots: 0,
        slot: 0,
        open: 0,
        used: AtomicU64::new(0),
        asks: 0,
        name: wire::calls::POOL_NAME,
    },
    apart: AtomicU64::new(0),
    ring: 0,
    most_wait: 0,
    tid_offset: 0,
    tells_pointer: 0,
    state_offset: 0,
    language: 0,
    facts: [0; wire::calls::FACTS],
    room: 0,
    r_debug: 0,
    line_tests: [0; 2],
    teller: 0,
    wary: AtomicU64::new(0),
    pid: 0,
    follow: 0,
    patience: 0,
    child_patience: 0,
    owner: 0,
    late: AtomicU64::new(0),
    refused: AtomicU64::new(0),
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
    probe = probes::probe,
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
    assert!(offset_of!(Hook, guard) == offset_of!(Descriptor, guard));
};

/// Words of an [`Entry`] and of a [`Return`].
const ENTRY_WORDS: u64 = (size_of::<Entry>() / 8) as u64;
const RETURN_WORDS: u64 = (size_of::<Return>() / 8) as u64;

/// In the first word of a frame's ticket: the session, from bit 32 on the line that is told, from here on what is kept of a
/// call of the VM's own.
const KEPT_AT: u32 = 64 - values::KEPT;
const PLACE: u32 = (1 << (KEPT_AT - 32)) - 1;
const _: () = assert!(wire::calls::MOST_LINES <= PLACE);
/// In the second: the lane, and above its address, of which so many bits are used, the line of the library.
const LIBRARY_AT: u32 = 48;

/// The ticket of a call: session, lines, what is kept; lane; when it began.
#[inline]
fn ticket(session: u32, place: u32, kept: u64, lane: &Lane, began: u64) -> [u64; 3] {
    let told = u64::from(told_line(place)) << 32;
    let library = u64::from(library_line(place)) << LIBRARY_AT;
    [
        u64::from(session) | told | kept << KEPT_AT,
        core::ptr::from_ref(lane).addr() as u64 | library,
        began,
    ]
}

/// The address of the lane and the lines of a call.
#[inline]
fn lane_and_lines([first, second, _]: [u64; 3]) -> (u64, u32) {
    let told = (first >> 32) as u32 & PLACE;
    let place = wire::calls::lines(told, (second >> LIBRARY_AT) as u32);
    (second & ((1 << LIBRARY_AT) - 1), place)
}

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
    // SAFETY: the command changes it while threads run; an aligned word is read whole.
    let wanted = unsafe { (&raw const hook.want).read_volatile() };
    if wanted == 0 {
        return 0;
    }
    // SAFETY: written before the gate was opened.
    let calls = unsafe { &*(&raw const CALLS) };
    if wanted & want::OWN != 0 {
        return enter_own(calls, hook, frame, wanted);
    }
    tell_enter(calls, hook, frame, wanted)
}

/// Into a function that is hooked for ourselves, and perhaps for the user too.
#[cold]
#[inline(never)]
fn enter_own(calls: &Calls, hook: &Hook, frame: &mut Frame, wanted: u64) -> u64 {
    let board = &crate::BOARD;
    if wanted & want::LOADER != 0 {
        loader::changed(calls, board);
    }
    frame.ticket = [u64::from(board.calls.load(Ordering::Relaxed)), 0, 0];
    let told = match wanted & want::TOLD {
        0 => 0,
        _ => tell_enter(calls, hook, frame, wanted),
    };
    let defines = match wanted & want::DEFINES {
        0 => 0,
        _ => want::RETURN,
    };
    told | defines | notices::at_call(calls, board, frame, wanted)
}

#[inline]
fn tell_enter(calls: &Calls, hook: &Hook, frame: &mut Frame, wanted: u64) -> u64 {
    if hook.callers != 0 && !is_within(hook.callers, frame.return_address) {
        return 0;
    }
    let board = &crate::BOARD;
    let (mut number, mut kept) = (hook.number, 0);
    if wanted & want::SCRIPTED != 0 {
        match scripted::called(hook, frame) {
            Some(called) => (number, kept) = called,
            None => return 0,
        }
    }
    let stack = stack_of(frame);
    let Some((lane, place)) = asked_for(calls, hook, (frame, stack), wanted) else {
        return 0;
    };
    let at = u64::from(place) << 32;
    let session = board.calls.load(Ordering::Relaxed);
    frame.ticket = ticket(session, place, kept, lane, 0);
    if wanted & (want::ENTRY | want::HELD) == want::ENTRY {
        tell_call(
            (lane, calls),
            hook,
            (frame, stack),
            number | at,
            wanted,
            sys::ticks(),
        );
    }
    let unheld = wanted & (want::COUNT | want::HELD) == want::COUNT;
    if unheld && hook.flags & ENTRY_ONLY != 0 {
        counts::add((lane, calls), number as u32, place, 0);
    }
    let now = sys::ticks();
    pulse::look(board, now);
    frame.ticket[2] = now;
    wanted & (want::RETURN | want::COUNT)
}

/// The lane and the line of a call that is to be told; `None` if it does not meet its hook's condition, or has no lane.
#[inline]
fn asked_for(
    calls: &Calls,
    hook: &Hook,
    (frame, stack): (&Frame, u64),
    wanted: u64,
) -> Option<(&'static Lane, u32)> {
    // SAFETY: the command wrote the condition.
    let meets = |bits| unsafe { asked::at_call(hook.asks_call, (frame, stack), bits) };
    if wanted & want::ASKS != 0 && !meets(0) {
        return None;
    }
    let lane = lane::mine(calls, &crate::BOARD)?;
    let (place, bits) = match wanted & want::PLACE {
        0 => (0, 0),
        _ => places::current(lane, calls, &crate::BOARD),
    };
    (wanted & want::ASKS_LINE == 0 || meets(bits)).then_some((lane, place))
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

/// Words that a record has for copies.
#[inline]
fn room(calls: &Calls, program: [u64; 2]) -> u64 {
    if program[1] == 0 { 0 } else { calls.room }
}

/// What an x87 register that holds nothing is told as: what the processor makes of one, a NaN.
const EMPTY: [u64; 2] = [0xc000_0000_0000_0000, 0xffff];

/// Copies st(0), and st(1) for `words` = 4, and leaves both where they are. A prototype may be wrong, so an empty
/// register is not touched: to load what was stored of one would leave the guest with a register more.
///
/// # Safety
/// There is room for `words` words at `at`.
#[inline(never)]
unsafe fn look_at_x87(at: u64, words: u64) {
    let [first, second] = [at, at + 16];
    // SAFETY: the caller's promise; what is popped is pushed again. `fxam` says 101 in C3, C2, C0 of an empty register (Intel SDM
    // volume 1, table 8-7); C0 to C3 are nobody's across calls.
    unsafe {
        for at in (at..at + words * 8).step_by(16) {
            (at as *mut [u64; 2]).write_unaligned(EMPTY);
        }
        core::arch::asm!(
            "fxam",
            "fnstsw ax",
            "and eax, 0x4500",
            "cmp eax, 0x4100",
            "je 3f",
            "fstp tbyte ptr [{first}]",
            "cmp {words}, 4",
            "jne 2f",
            "fxam",
            "fnstsw ax",
            "and eax, 0x4500",
            "cmp eax, 0x4100",
            "je 2f",
            "fstp tbyte ptr [{second}]",
            "fld tbyte ptr [{second}]",
            "2:",
            "fld tbyte ptr [{first}]",
            "3:",
            first = in(reg) first,
            second = in(reg) second,
            words = in(reg) words,
            out("eax") _,
            options(nostack),
        );
    }
}

#[inline]
fn tell_call(
    (lane, calls): (&Lane, &Calls),
    hook: &Hook,
    (frame, stack): (&Frame, u64),
    which: u64,
    wanted: u64,
    ticks: u64,
) {
    let kind = match wanted & want::HELD {
        0 => kind::ENTRY,
        _ => kind::HELD,
    };
    let floats = if wanted & want::FLOATS != 0 { 8 } else { 0 };
    let fixed = ENTRY_WORDS + floats;
    let body = fixed + room(calls, hook.at_entry);
    let Some(mut record) = Record::begin(lane, calls, &crate::BOARD, kind, body) else {
        return;
    };
    let entry = Entry {
        hook: which,
        ticks,
        frame: stack,
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
            let end = captures::copy(hook.at_entry, (frame, stack), None, &record, fixed, 0);
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
    let [ticket, _, began] = frame.ticket;
    let (lane, place) = lane_and_lines(frame.ticket);
    let board = &crate::BOARD;
    // SAFETY: as in `enter`.
    let (calls, wanted) = unsafe { (&*(&raw const CALLS), (&raw const hook.want).read_volatile()) };
    if wanted & want::NOTICES != 0 {
        let which = (wanted, hook.place);
        notices::at_return(calls, board, which, ticket as u32, results.rax);
    }
    // Of a session before this one, or told to a fork's parent.
    if ticket as u32 != board.calls.load(Ordering::Relaxed) {
        return;
    }
    if wanted & want::DEFINES != 0 {
        loader::wait(calls, board);
    }
    // The frame was not `tell_enter`'s.
    if lane == 0 {
        return;
    }
    let number = match wanted & want::SCRIPTED {
        0 => hook.number,
        _ => scripted::number(hook, frame).unwrap_or(hook.number),
    };
    // SAFETY: `enter` put it there, and lanes are never unmapped.
    let lane = unsafe { &*(lane as *const Lane) };
    // A frame that another thread finishes (a coroutine that was moved): the line's number is the first one's.
    let (lane, place) = match lane.thread.load(Ordering::Relaxed) == lane::thread(calls) {
        true => (lane, place),
        false => match lane::mine(calls, board) {
            Some(lane) => (lane, 0),
            None => return,
        },
    };
    tell_end(
        (lane, calls),
        hook,
        (frame, stack_of(frame)),
        results,
        Ended {
            number,
            place,
            wanted,
            began,
            now,
            kept: ticket >> KEPT_AT,
        },
    );
}

/// Where a call's stack arguments begin; names the call.
fn stack_of(frame: &Frame) -> u64 {
    Frame::stack_arguments(frame).addr() as u64
}

/// What is known of a call that has returned.
struct Ended {
    number: u64,
    place: u32,
    wanted: u64,
    began: u64,
    now: u64,
    kept: u64,
}

/// Tells that a call has returned, or counts it; if it was held, the call too.
#[inline]
fn tell_end(
    (lane, calls): (&Lane, &Calls),
    hook: &Hook,
    (frame, stack): (&Frame, u64),
    results: &Results,
    ended: Ended,
) {
    let board = &crate::BOARD;
    let Ended {
        number,
        place,
        wanted,
        began,
        now,
        kept,
    } = ended;
    if wanted & want::HELD != 0 {
        let took = now.wrapping_sub(began);
        let meets = || {
            let bits = match wanted & want::ASKS_LINE {
                0 => 0,
                _ => places::current(lane, calls, board).1,
            };
            // SAFETY: the command wrote the condition.
            unsafe { asked::at_return(hook.asks_return, (frame, stack), results, took, bits, kept) }
        };
        if took < hook.least_ticks || !meets() {
            return;
        }
        if wanted & want::COUNT == 0 {
            let which = number | u64::from(place) << 32;
            tell_call((lane, calls), hook, (frame, stack), which, wanted, began);
        }
    }
    if wanted & want::COUNT != 0 {
        return counts::add((lane, calls), number as u32, place, now.wrapping_sub(began));
    }
    if wanted & want::RETURN == 0 {
        return;
    }
    let floats = if wanted & want::FLOATS != 0 { 2 } else { 0 };
    let x87 = match wanted & (want::X87 | want::X87_PAIR) {
        0 => 0,
        want::X87 => 2,
        _ => 4,
    };
    let fixed = RETURN_WORDS + floats + x87;
    let body = fixed + room(calls, hook.at_return);
    let Some(mut record) = Record::begin(lane, calls, board, kind::RETURN, body) else {
        return;
    };
    let told = Return {
        hook: number | x87 << 32,
        ticks: now,
        frame: stack,
        registers: [results.rax, results.rdx],
    };
    // SAFETY: the parts add up to `body`.
    unsafe {
        record.part(0, told);
        for (index, xmm) in (0..floats).zip(&results.xmm) {
            record.word(RETURN_WORDS + index, xmm[0]);
        }
        if x87 != 0 {
            look_at_x87(record.address(RETURN_WORDS + floats), x87);
        }
        if hook.at_return[1] != 0 {
            let end = captures::copy(
                hook.at_return,
                (frame, stack),
                Some(results),
                &record,
                fixed,
                kept,
            );
            record.shorten(lane, end);
        }
    }
    record.end();
}

/// A new session begins: what the hooks read is in place. Called by a borrowed thread, all others stand still.
#[unsafe(no_mangle)]
extern "C" fn open_calls(_: u64) -> u64 {
    // SAFETY: the gate is closed.
    places::open(unsafe { &*(&raw const CALLS) });
    0
}
