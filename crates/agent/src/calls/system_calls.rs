//! What a thread tells before a system call and behind it.
//!
//! Two probes, not one hook around it: the instruction stays in the guest's code, so nothing of ours is on the stack while the
//! thread is in the kernel. What the second must know of the first is kept in the lane, as a ring: between the two a signal
//! handler may make system calls of its own, and leave by longjmp.
//!
//! A call is named by its instruction and the stack pointer. A child comes out of the second probe too: of `fork` with the gate
//! closed; of `clone` on a stack and with a lane of its own, in which nothing is open; of `vfork` as its parent's twin, with result 0,
//! and then it runs as the parent's thread until it is another program or gone. The lane is *lent* for so long, and what it does is not
//! told.

use super::probes::as_call;
use super::values::Proven;
use super::{Ended, asked_for, counts, lane, pulse, tell_call, tell_end};
use crate::sys;
use core::sync::atomic::Ordering;
use routine::frame::{ProbeFrame, Results};
use vm::Memory;
use wire::calls::{CALLED, Hook, Lane, OPEN, OpenSystemCall, SYSTEM_CALLS, want};

// Numbers: Linux arch/x86/entry/syscalls/syscall_64.tbl.
const CLONE: u64 = 56;
const FORK: u64 = 57;
const VFORK: u64 = 58;
const EXECVE: u64 = 59;
const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;
const EXECVEAT: u64 = 322;
const CLONE3: u64 = 435;

/// `CLONE_VFORK` (include/uapi/linux/sched.h): the parent waits.
const WAITS: u64 = 0x4000;

// The machine's numbers of registers.
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

/// A thread is about to make a system call.
pub fn begins(place: &Hook, frame: &ProbeFrame) {
    // SAFETY: written before the gate was opened.
    let calls = unsafe { &*(&raw const super::CALLS) };
    let board = &crate::BOARD;
    let stack = frame.registers[RSP];
    let (number, mut arguments) = made(place, frame);
    let session = board.calls.load(Ordering::Relaxed);
    if lane::known(calls).is_some_and(|lane| lent(lane, session) != 0) {
        return;
    }
    let lends = lends(number, arguments[0]);
    let (hook, wanted) = of(place, number).map_or((place, 0), |hook| (hook, wanted(hook)));
    if hook.place == SYSTEM_CALLS {
        // One without a hook of its own has its number as its first.
        arguments.rotate_right(1);
        arguments[0] = number;
    }
    let told = as_call(hook, arguments, frame.registers[RBP], place.instruction);
    let asked = match wanted & want::TOLD {
        0 => None,
        _ => asked_for(calls, hook, (&told, stack), wanted),
    };
    let mut open = OpenSystemCall {
        instruction: place.instruction,
        stack,
        arguments,
        ..OpenSystemCall::NONE
    };
    let Some((lane, line)) = asked else {
        let lane = match lends {
            true => lane::mine(calls, board),
            false => lane::known(calls),
        };
        // What was left open at the same place must not be taken for it.
        if let Some(lane) = lane {
            push(lane, open);
            lend(lane, place, lends);
        }
        return;
    };
    let at = u64::from(line) << 32;
    open.hook = core::ptr::from_ref(hook).addr() as u64;
    open.ticket = u64::from(session) | at;
    let ends = matches!(number, EXIT | EXIT_GROUP);
    if wanted & (want::ENTRY | want::HELD) == want::ENTRY {
        let which = hook.number | at;
        tell_call(
            (lane, calls),
            hook,
            (&told, stack),
            which,
            wanted,
            sys::ticks(),
        );
        // With the process goes its memory.
        match number {
            EXIT_GROUP => lane::drain(lane, board, calls.patience),
            EXECVE | EXECVEAT => lane::drain(lane, board, calls.most_wait),
            _ => {}
        }
    }
    if ends {
        if wanted & (want::COUNT | want::HELD) == want::COUNT {
            counts::add((lane, calls), hook.number as u32, line, 0);
        }
        return;
    }
    open.began = sys::ticks();
    pulse::look(board, open.began);
    push(lane, open);
    lend(lane, place, lends);
}

/// It comes back from one; or it is a child that does.
pub fn ends(place: &Hook, frame: &ProbeFrame) {
    let now = sys::ticks();
    let result = frame.registers[RAX];
    let makes_child = matches!(place.fixed, CLONE | FORK | VFORK | CLONE3);
    if result == 0 && makes_child {
        return;
    }
    // SAFETY: written before the gate was opened.
    let calls = unsafe { &*(&raw const super::CALLS) };
    let Some(lane) = lane::known(calls) else {
        return;
    };
    let session = crate::BOARD.calls.load(Ordering::Relaxed);
    let lent = lent(lane, session);
    if lent != 0 {
        if lent != place.instruction || result == 0 {
            return;
        }
        lane.lent.store(0, Ordering::Relaxed);
    }
    let Some(open) = take(lane, place.instruction, frame.registers[RSP]) else {
        return;
    };
    if open.hook == 0 || open.ticket as u32 != session {
        return;
    }
    // SAFETY: hooks are never freed.
    let hook = unsafe { &*(open.hook as *const Hook) };
    let told = as_call(
        hook,
        open.arguments,
        frame.registers[RBP],
        place.instruction,
    );
    let results = Results {
        xmm: [[0; 2]; 16],
        rax: result,
        rdx: frame.registers[RDX],
        scratch: [0; 7],
    };
    tell_end(
        (lane, calls),
        hook,
        (&told, open.stack),
        &results,
        Ended {
            number: hook.number,
            place: (open.ticket >> 32) as u32,
            wanted: wanted(hook),
            began: open.began,
            now,
            kept: 0,
        },
    );
}

/// The hook of a number.
#[inline]
fn of(place: &Hook, number: u64) -> Option<&'static Hook> {
    let [table, count] = place.names;
    if count <= SYSTEM_CALLS {
        return None;
    }
    // The kernel looks at 32 bits.
    let number = number & 0xffff_ffff;
    let at = |number: u64| {
        // SAFETY: the command wrote so many words before the hook was told of them.
        let hook = unsafe { *(table as *const u64).add(number as usize) };
        // SAFETY: hooks are never freed.
        (hook != 0).then(|| unsafe { &*(hook as *const Hook) })
    };
    let own = if number < SYSTEM_CALLS {
        at(number)
    } else {
        None
    };
    own.or_else(|| at(SYSTEM_CALLS))
}

#[inline]
fn wanted(hook: &Hook) -> u64 {
    // SAFETY: the command changes it while threads run; an aligned word is read whole.
    unsafe { (&raw const hook.want).read_volatile() }
}

/// Its number and its arguments.
#[inline]
fn made(place: &Hook, frame: &ProbeFrame) -> (u64, [u64; 6]) {
    let registers = &frame.registers;
    if place.fixed != CALLED {
        let arguments = [RDI, RSI, RDX, R10, R8, R9].map(|index| registers[index]);
        return (registers[RAX], arguments);
    }
    let [a, b, c, d] = [RDX, RCX, R8, R9].map(|index| registers[index]);
    // SAFETY: the caller of a function with eight arguments has put two of them there.
    let [e, f] = unsafe { *(registers[RSP] as *const [u64; 2]) };
    (registers[RSI], [a, b, c, d, e, f])
}

/// Notes a call as open. Room first: a handler that comes in between uses what is above.
fn push(lane: &Lane, open: OpenSystemCall) {
    let at = lane.depth.load(Ordering::Relaxed);
    lane.depth.store(at + 1, Ordering::Relaxed);
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    // SAFETY: of this thread's own lane.
    unsafe { slot(lane, at).write_volatile(open) };
}

/// The call that is open there; those within it will not return.
fn take(lane: &Lane, instruction: u64, stack: u64) -> Option<OpenSystemCall> {
    let depth = lane.depth.load(Ordering::Relaxed);
    for back in 1..=depth.min(OPEN as u64) {
        // SAFETY: as in `push`.
        let open = unsafe { slot(lane, depth - back).read_volatile() };
        if open.instruction == instruction && open.stack == stack {
            lane.depth.store(depth - back, Ordering::Relaxed);
            return Some(open);
        }
    }
    None
}

fn slot(lane: &Lane, at: u64) -> *mut OpenSystemCall {
    let first = lane.system_calls.get().cast::<OpenSystemCall>();
    first.wrapping_add(at as usize % OPEN)
}

/// Whether a child runs as this thread until it is another program or gone.
fn lends(number: u64, argument: u64) -> bool {
    let flags = match number {
        VFORK => WAITS,
        CLONE => argument,
        // The first word of `struct clone_args`.
        CLONE3 => {
            let mut flags = [0; 8];
            let _ = Proven::new().read(argument, &mut flags);
            u64::from_le_bytes(flags)
        }
        _ => 0,
    };
    flags & WAITS != 0
}

/// The system call whose child runs as this lane's thread; 0 = none does. That of a session before this one is over.
fn lent(lane: &Lane, session: u32) -> u64 {
    match lane.session.load(Ordering::Relaxed) == session {
        true => lane.lent.load(Ordering::Relaxed),
        false => 0,
    }
}

fn lend(lane: &Lane, place: &Hook, lends: bool) {
    if lends {
        lane.lent.store(place.instruction, Ordering::Relaxed);
    }
}
