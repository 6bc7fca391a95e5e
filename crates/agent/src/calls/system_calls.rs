//! Handles the probes before and behind a system call. Used by `probes`.
//!
//! There are two probes and not one hook around the call, because the `syscall` instruction stays in the guest's code,
//! so that no frame of ours is on the stack while the thread is in the kernel. What the second probe must know of the
//! first is kept in the ring, in a ring buffer: between the two a signal handler may make system calls of its own, and
//! leave by longjmp.
//!
//! A call is identified by its instruction and the stack pointer. Children pass the second probe too: one that has a copy of
//! the memory, with the gate wiped (`children`); a thread made by `clone` on a stack and with a ring of its own, in which no call is open; that of
//! `vfork` with the same stack and ring as its parent and with result 0, until it runs another program or ends. For that
//! time the ring is *lent* to the child, and what the child does is not recorded.

mod inject;
mod quick;

pub use quick::quick_probe;

use super::events::Which;
use super::finish::{self, Ended};
use super::hooked::{Hooked, NO_VECTORS, Outcome, as_call, wanted};
use super::session::calls;
use super::{children, counts, events, locks, notices, pulse, ring, selection, session, ticket};
use crate::memory::copied::Copied;
use crate::memory::follow::{ours, own_stack};
use crate::memory::sys;
use core::sync::atomic::Ordering;
use routine::frame::{ProbeFrame, Results};
use vm::Memory;
use wire::calls::special::{self, CLONE, CLONE3, EXECVE, EXECVEAT, EXIT_GROUP, FORK, VFORK};
use wire::calls::{
    CALLED, COPIED, Hook, Injection, OPEN, OpenSystemCall, Ring, SYSTEM_CALLS, want,
};

// include/uapi/linux/sched.h
/// `CLONE_VFORK`: the parent waits until the child has ended or run another program.
const WAITS: u64 = 0x4000;
/// `CLONE_VM`: the child runs in its parent's memory.
const SHARES: u64 = 0x100;

// The processor's numbers of registers.
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const RBP: usize = 5;
const RSI: usize = 6;
const RDI: usize = 7;
const R8: usize = 8;
const R9: usize = 9;
const R10: usize = 10;

/// Handles a system call that the thread is about to make.
///
/// # Safety
/// `made_frame` is the frame that the routine made of this thread, and lives until this returns.
pub unsafe fn begins(place: &Hook, made_frame: *mut ProbeFrame) {
    // SAFETY: the caller guarantees that `made_frame` is the routine's live frame; the reference ends with this call.
    let (number, arguments) = made(place, unsafe { &*made_frame });
    let session = session::number();
    let known = ring::known();
    let is_lent = known.is_some_and(|ring| is_lent(ring, session));
    if !is_lent {
        // SAFETY: the caller guarantees that `made_frame` is the routine's live frame; no reference to it is alive here.
        unsafe { note(place, made_frame, (number, arguments), known) };
    }
    let [first, second, third, ..] = arguments;
    if special::may_lock(number) {
        locks::before(number, [first, second, third]);
    }
    if is_lent {
        return;
    }
    // The process's memory, and with it the records, will be gone after this call.
    match number {
        EXIT_GROUP => notices::ends(first),
        EXECVE | EXECVEAT => ring::drain_private(session),
        _ => {}
    }
}

/// Notes what is wanted of a system call that is about to be made. `known`: the thread's ring, if it has one.
///
/// # Safety
/// `made_frame` is the frame that the routine made of this thread, and lives until this returns.
unsafe fn note(
    place: &Hook,
    made_frame: *mut ProbeFrame,
    (number, mut arguments): (u64, [u64; 6]),
    known: Option<&'static Ring>,
) {
    // SAFETY: the caller guarantees that `made_frame` is the routine's live frame. It is not written while the reference
    // is used.
    let frame = unsafe { &*made_frame };
    let stack = frame.registers[RSP];
    let session = session::number();
    let child = child(number, arguments[0], || Copied::above(stack, known));
    let (hook, wanted) = of(place, number).map_or((place, 0), |hook| (hook, wanted(hook)));
    if hook.place == SYSTEM_CALLS {
        // A call without a hook of its own has its number as its first argument in the record.
        arguments.rotate_right(1);
        arguments[0] = number;
    }
    let shown = as_call(hook, arguments, frame.registers[RBP], place.instruction);
    let call = Hooked {
        hook,
        wanted,
        frame: &shown,
        vectors: NO_VECTORS,
        stack,
    };
    let selected = if call.wants(want::EVENTS) {
        selection::at_call(call, known)
    } else {
        None
    };
    let mut open = OpenSystemCall {
        instruction: place.instruction,
        stack,
        arguments,
        ..OpenSystemCall::NONE
    };
    let Some((ring, lines)) = selected else {
        // The ring that was found by this thread's address may be that of one that has ended, which others may take at any time.
        let ring = match (child, known) {
            (Child::None, None) => None,
            _ => ring::mine(),
        };
        // A call that was left open at the same place must not be taken for this one.
        if let Some(ring) = ring {
            push(ring, open);
            expect(ring, place, child);
        }
        return;
    };
    open.hook = core::ptr::from_ref(hook).expose_provenance() as u64;
    open.ticket = u64::from(session) | u64::from(lines) << 32;
    let ends = special::ends(number);
    let mut told = true;
    let now = sys::ticks();
    if wanted & (want::ENTRY | want::HELD) == want::ENTRY {
        let number = hook.number;
        told = events::call(ring, call, Which { number, lines }, now);
    }
    if ends {
        if wanted & (want::COUNT | want::HELD) == want::COUNT {
            let row = counts::row(ring, counted_as(place, hook) as u32, lines);
            if let Some(row) = row {
                counts::begun(ring, row);
            }
        }
        return;
    }
    pulse::look(now);
    open.began = if told { now } else { ticket::UNTOLD };
    let injection = if wanted & want::INJECT == 0 {
        None
    } else {
        inject::of(hook, ring, session)
            .filter(|it| it.replaces == 0 || inject::can_replace(made_frame, stack))
    };
    open.injected = injection.map_or(0, |_| hook.names[0]);
    push(ring, open);
    expect(ring, place, child);
    if let Some(injection) = injection {
        // SAFETY: the caller guarantees that `made_frame` is the routine's live frame; for an injected result
        // `can_replace` was checked above.
        unsafe { inject::begins(&injection, place, made_frame) };
    }
}

/// Handles the return of a system call in its caller, or in a child in the same memory.
pub fn ends(place: &Hook, frame: &ProbeFrame) {
    let result = frame.registers[RAX];
    if result == 0 && special::makes_child(place.fixed) {
        return;
    }
    let Some(ring) = ring::known() else {
        return;
    };
    let opened = opened(ring, session::number());
    if opened & !COPIED == place.instruction && result != 0 {
        ring.lent.store(0, Ordering::Relaxed);
    } else if opened != 0 && opened & COPIED == 0 {
        // The child that has borrowed the ring makes this call.
        return;
    }
    returns(place, frame, ring);
    if opened == place.instruction | COPIED && result != 0 {
        children::made(ring, (!failed(result)).then_some(result));
    }
}

/// Records or counts the return of a system call.
fn returns(place: &Hook, frame: &ProbeFrame, ring: &'static Ring) {
    let result = frame.registers[RAX];
    let session = session::number();
    let failed = failed(result);
    let Some(open) = take(ring, place.instruction, frame.registers[RSP]) else {
        return;
    };
    if open.hook == 0 || open.ticket as u32 != session {
        return;
    }
    let now = sys::ticks();
    // SAFETY: `note` has put the address of a hook there, and hooks are never freed.
    let hook = unsafe { &*ours::<Hook>(open.hook) };
    if open.began == ticket::UNTOLD {
        if wanted(hook) & want::RETURN != 0 {
            events::lose_return(ring);
        }
        return;
    }
    let shown = as_call(
        hook,
        open.arguments,
        frame.registers[RBP],
        place.instruction,
    );
    let results = Results {
        xmm: [[0; 2]; 16],
        rax: result,
        rdx: if wanted(hook) & want::INJECT == 0 {
            frame.registers[RDX]
        } else {
            inject::mark(open.injected)
        },
        scratch: [0; 7],
    };
    let wanted = wanted(hook);
    // No time was read at the call.
    let began = match wanted & want::BARE {
        0 => open.began,
        _ => now,
    };
    let number = match wanted & want::COUNT {
        0 => hook.number,
        _ => counted_as(place, hook),
    };
    finish::finish(Ended {
        call: Hooked {
            hook,
            wanted,
            frame: &shown,
            vectors: NO_VECTORS,
            stack: open.stack,
        },
        ring,
        number,
        system_call: Some(failed),
        lines: (open.ticket >> 32) as u32,
        outcome: Outcome {
            results: &results,
            kept: 0,
        },
        began,
        now,
        here: true,
    });
    if open.injected != 0 {
        // SAFETY: `note` has put the address of an injection there, and the command never frees injections.
        inject::ends(unsafe { &*ours::<Injection>(open.injected) });
    }
}

/// Returns the hook of a system call's number at this place; for a number without a hook of its own, the hook of all
/// others.
#[inline(always)]
fn of(place: &Hook, number: u64) -> Option<&'static Hook> {
    let [table, count] = place.names;
    if count <= SYSTEM_CALLS {
        return None;
    }
    // The kernel uses 32 bits of the number.
    let number = number & 0xffff_ffff;
    let at = |number: u64| {
        // SAFETY: the command has written a table with more than `number` words at `table` before it told the hook of
        // it.
        let hook = unsafe { *ours::<u64>(table).add(number as usize) };
        // SAFETY: the table holds addresses of hooks, which are never freed.
        (hook != 0).then(|| unsafe { &*ours::<Hook>(hook) })
    };
    let own = if number < SYSTEM_CALLS {
        at(number)
    } else {
        None
    };
    own.or_else(|| at(SYSTEM_CALLS))
}

/// Returns the number under which a system call is counted: that of its place, which identifies the caller, if the place
/// makes no other system call.
#[inline(always)]
fn counted_as(place: &Hook, hook: &Hook) -> u64 {
    if place.fixed < SYSTEM_CALLS && hook.place != SYSTEM_CALLS {
        place.number
    } else {
        hook.number
    }
}

/// Whether a result is an error: the kernel's range from -4095 to -1 (include/linux/err.h, `MAX_ERRNO`).
#[inline(always)]
fn failed(result: u64) -> bool {
    result > -4096_i64 as u64
}

/// Returns the number and the arguments of the system call that is made at this place.
#[inline]
fn made(place: &Hook, frame: &ProbeFrame) -> (u64, [u64; 6]) {
    let registers = &frame.registers;
    if place.fixed != CALLED {
        let arguments = [RDI, RSI, RDX, R10, R8, R9].map(|index| registers[index]);
        return (registers[RAX], arguments);
    }
    let [a, b, c, d] = [RDX, RCX, R8, R9].map(|index| registers[index]);
    // SAFETY: the place calls a function with eight arguments, so the caller has put the last two at the stack pointer.
    let [e, f] = unsafe { *own_stack::<[u64; 2]>(registers[RSP]) };
    (registers[RSI], [a, b, c, d, e, f])
}

/// Notes a call as open. The slot is taken before it is filled, so that a handler that runs in between uses the next
/// ones.
fn push(ring: &Ring, open: OpenSystemCall) {
    let at = ring.depth.load(Ordering::Relaxed);
    ring.depth.store(at + 1, Ordering::Relaxed);
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    // SAFETY: `slot` returns an entry of the ring's array. The ring is this thread's own, so only it and its handlers
    // write there.
    unsafe { slot(ring, at).write_volatile(open) };
}

/// Takes the open call of that place. Calls that were opened after it will not return.
fn take(ring: &Ring, instruction: u64, stack: u64) -> Option<OpenSystemCall> {
    let depth = ring.depth.load(Ordering::Relaxed);
    for back in 1..=depth.min(OPEN as u64) {
        // SAFETY: `slot` returns an entry of the ring's array. The ring is this thread's own, so only it and its
        // handlers write there.
        let open = unsafe { slot(ring, depth - back).read_volatile() };
        if open.instruction == instruction && open.stack == stack {
            ring.depth.store(depth - back, Ordering::Relaxed);
            return Some(open);
        }
    }
    None
}

#[inline(always)]
fn slot(ring: &Ring, at: u64) -> *mut OpenSystemCall {
    let first = ring.system_calls.get().cast::<OpenSystemCall>();
    first.wrapping_add(at as usize % OPEN)
}

/// What becomes of the ring when a system call makes a child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Child {
    /// None is made, or a thread, or a process that is not followed.
    None,
    /// The child runs as this thread until it runs another program or ends.
    Borrows,
    /// It has a copy of the memory, and is followed.
    Copies,
}

/// Returns what kind of child this system call makes.
fn child(number: u64, argument: u64, memory: impl FnOnce() -> Copied) -> Child {
    let flags = match number {
        FORK => 0,
        VFORK => WAITS | SHARES,
        CLONE => argument,
        // `flags`, the first word of `struct clone_args`.
        CLONE3 => {
            let mut flags = [0; 8];
            match memory().read(argument, &mut flags) {
                Ok(()) => u64::from_le_bytes(flags),
                // If it is a thread that is made, the lending ends when the call returns.
                Err(_) => WAITS,
            }
        }
        _ => return Child::None,
    };
    if flags & WAITS != 0 {
        Child::Borrows
    } else if flags & SHARES == 0 && calls().follow != 0 {
        Child::Copies
    } else {
        Child::None
    }
}

/// Returns the system call that makes a child, as in [`Ring::lent`]; 0 = none is open. One of an earlier session does not
/// count.
#[inline(always)]
fn opened(ring: &Ring, session: u32) -> u64 {
    if ring.session.load(Ordering::Relaxed) == session {
        ring.lent.load(Ordering::Relaxed)
    } else {
        0
    }
}

/// Whether a child runs as this ring's thread.
#[inline(always)]
fn is_lent(ring: &Ring, session: u32) -> bool {
    let opened = opened(ring, session);
    opened != 0 && opened & COPIED == 0
}

/// Notes that a system call is about to make a child of this kind.
fn expect(ring: &Ring, place: &Hook, child: Child) {
    let mark = match child {
        Child::None => return,
        Child::Borrows => 0,
        Child::Copies => {
            children::expect(ring);
            COPIED
        }
    };
    ring.lent.store(place.instruction | mark, Ordering::Relaxed);
}
