//! Injects into system calls what the command asks for: results instead of the kernel's, and delays. Used by
//! `system_calls`.
//!
//! A call whose result is injected is not made: the probe before it makes the thread go on behind the instruction with the
//! result in rax, so there is no moment at which the kernel has been called and the result is not set yet. The probe
//! behind it records the return like any other.
//!
//! Nothing is injected while the command is silent: if it is killed, the guest's calls are unchanged again within 1.5
//! seconds ([`pulse::beats`]).

use super::super::{places, pulse};
use super::{RAX, RCX, RSP};
use crate::memory::follow::{ours, own_stack};
use crate::memory::store::mix;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::frame::ProbeFrame;
use wire::calls::{CALLED, DELAYED, Hook, INJECTED, Injection, REPLACED, Ring};

/// How many calls of one system call one thread has made; strace counts in the same way.
struct Met {
    /// The thread and system call that are counted ([`key`]); 0 = none yet.
    key: AtomicU64,
    calls: AtomicU64,
}

/// Limit of pairs of thread and system call that are counted in one session; nothing is injected into calls of others.
const COUNTED: usize = 4096;

static MET: [Met; COUNTED] = [const {
    Met {
        key: AtomicU64::new(0),
        calls: AtomicU64::new(0),
    }
}; COUNTED];

/// The longest single sleep in nanoseconds; the command may fall silent meanwhile.
const NAP: u64 = 100_000_000;

/// Limit of the distance in bytes from a function's stack pointer down to the routine's frame on the same stack.
const NEAR: u64 = 1024;

/// Bytes that a stub skips below the stack pointer, and bytes that the stub and the routine's call push.
const RED_ZONE: u64 = 128;
const PUSHED: u64 = 16;

unsafe extern "C" {
    /// Defined in `routine::code::probe`; no code calls it. The routine returns to it instead of to the stub, and it goes
    /// on at the address in rcx.
    fn trampoline_elsewhere();
}

/// Returns a copy of what is injected into this call, if anything is. It is a copy because the call may wait, and another
/// session may write there meanwhile. Each call that the injection applies to is counted.
#[cold]
pub fn of(hook: &Hook, ring: &Ring, session: u32) -> Option<Injection> {
    let [at, words] = hook.names;
    if (words as usize) < size_of::<Injection>() / 8 {
        return None;
    }
    // SAFETY: the command has written the injection before it told the hook of it, and never frees it.
    let injection = unsafe { ours::<Injection>(at).read() };
    if injection.lines != 0 && u64::from(places::current(ring).1) & injection.lines == 0 {
        return None;
    }
    let tid = ring.tid.load(Ordering::Relaxed);
    let number = count(key(session, tid, hook.number as u32))?;
    let from = number.checked_sub(injection.first)?;
    let falls = number <= injection.last && from.checked_rem(injection.step) == Some(0);
    (falls && pulse::beats()).then_some(injection)
}

/// Bits of a thread's id (`PID_MAX_LIMIT`, include/linux/threads.h), and bits of a hook's number.
const OF_THREAD: u32 = 22;
const OF_HOOK: u32 = 20;

/// Returns the key of one system call's hook, one thread and one session; never 0, because session numbers begin with 1.
fn key(session: u32, tid: u32, hook: u32) -> u64 {
    let hook = u64::from(hook) & ((1 << OF_HOOK) - 1);
    let thread = u64::from(tid) & ((1 << OF_THREAD) - 1);
    u64::from(session) << (OF_THREAD + OF_HOOK) | thread << OF_HOOK | hook
}

/// Returns the number of this call among those with the same key, from 1; `None` = there is no room.
fn count(key: u64) -> Option<u64> {
    const OF_SESSION: u32 = OF_THREAD + OF_HOOK;
    let first = mix(key, 0) as usize;
    for step in 0..COUNTED {
        let met = &MET[first.wrapping_add(step) % COUNTED];
        let mut known = met.key.load(Ordering::Acquire);
        // The entry is of an earlier session.
        if known >> OF_SESSION != key >> OF_SESSION {
            let order = Ordering::AcqRel;
            match met
                .key
                .compare_exchange(known, key, order, Ordering::Acquire)
            {
                Ok(_) => {
                    met.calls.store(1, Ordering::Relaxed);
                    return Some(1);
                }
                Err(now) => known = now,
            }
        }
        if known == key {
            return Some(met.calls.fetch_add(1, Ordering::Relaxed) + 1);
        }
    }
    None
}

/// Whether the thread can be made to go on elsewhere: on a small stack the frame is a copy, and changes to it are lost.
pub fn can_replace(frame: *const ProbeFrame, stack: u64) -> bool {
    stack.wrapping_sub(frame.addr() as u64) < NEAR
}

/// Handles a call that the thread is about to make: waits, and skips the call if its result is injected.
///
/// # Safety
/// `frame` is the routine's live frame, and [`can_replace`] has returned true for it if the result is injected.
pub unsafe fn begins(injection: &Injection, place: &Hook, frame: *mut ProbeFrame) {
    sleep(injection.before);
    if injection.replaces == 0 {
        return;
    }
    // The length in bytes of a `call` or of a `syscall`.
    let length = if place.fixed == CALLED { 5 } else { 2 };
    // SAFETY: the caller guarantees that `frame` is the routine's live frame on the thread's own stack ([`can_replace`]);
    // the word that is written is the return address that the stub's call has pushed there.
    unsafe {
        let registers = &raw mut (*frame).registers;
        let stack = (*registers)[RSP];
        (*registers)[RAX] = injection.result;
        (*registers)[RCX] = place.instruction + length;
        let back = own_stack::<u64>(stack - RED_ZONE - PUSHED);
        back.write(trampoline_elsewhere as *const () as u64);
    }
}

/// Handles the return of the call: waits.
pub fn ends(injection: &Injection) {
    sleep(injection.behind);
}

/// Returns what the record of the return holds as its second result.
pub fn mark(injected: u64) -> u64 {
    if injected == 0 {
        return 0;
    }
    // SAFETY: `note` has put the address of an injection there, and the command never frees injections.
    let injection = unsafe { &*ours::<Injection>(injected) };
    let replaced = if injection.replaces == 0 { 0 } else { REPLACED };
    let delayed = if injection.before | injection.behind == 0 {
        0
    } else {
        DELAYED
    };
    INJECTED | replaced | delayed
}

/// Sleeps for this time, regardless of signals, unless the command is gone.
fn sleep(nanoseconds: u64) {
    if nanoseconds == 0 {
        return;
    }
    let until = sys::now().saturating_add(nanoseconds);
    loop {
        let left = until.saturating_sub(sys::now());
        if left == 0 || !pulse::beats() {
            return;
        }
        sys::pause(left.min(NAP));
    }
}
