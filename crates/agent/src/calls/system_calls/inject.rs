//! What the command injects into system calls: results in the place of the kernel's, and time.
//!
//! A call whose result is injected is not made: the probe before it has the thread go on behind the instruction, with the
//! result in rax, so there is no instant in which the kernel was asked and the result is not yet there. The probe behind
//! it records the return like any other.
//!
//! Nothing is injected once the command is silent: whoever kills it leaves a guest whose calls are its own again within
//! 1.5 seconds ([`pulse::beats`]).

use super::super::{places, pulse};
use super::{RAX, RCX, RSP};
use crate::memory::store::mix;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::frame::ProbeFrame;
use wire::calls::{CALLED, DELAYED, Hook, INJECTED, Injection, REPLACED, Ring};

/// How many calls of one system call one thread has made: strace counts so too.
struct Met {
    /// What is counted ([`key`]); 0 = nothing yet.
    key: AtomicU64,
    calls: AtomicU64,
}

/// So many threads and calls are counted in one session; those that come when there is no room are not injected into.
const COUNTED: usize = 4096;

static MET: [Met; COUNTED] = [const {
    Met {
        key: AtomicU64::new(0),
        calls: AtomicU64::new(0),
    }
}; COUNTED];

/// The longest single sleep, in nanoseconds: the command may fall silent meanwhile.
const NAP: u64 = 100_000_000;

/// From the stack pointer of a function down to the frame that the routine made on the same stack, at most.
const NEAR: u64 = 1024;

/// Bytes that a stub steps over below the stack pointer, and what it and the routine's call put there.
const RED_ZONE: u64 = 128;
const PUSHED: u64 = 16;

unsafe extern "C" {
    /// Defined in `routine::code::probe`; nobody calls it. The routine returns to it in the place of the stub, and it
    /// goes on at the address in rcx.
    fn trampoline_elsewhere();
}

/// What is injected into this call, if anything is, as a copy: the call may wait, and another session may write there
/// meanwhile. Each call that the injection is about is counted.
#[cold]
pub fn of(hook: &Hook, ring: &Ring, session: u32) -> Option<Injection> {
    let [at, words] = hook.names;
    if (words as usize) < size_of::<Injection>() / 8 {
        return None;
    }
    // SAFETY: the command wrote it before the hook was told of it, and it is never freed.
    let injection = unsafe { (at as *const Injection).read() };
    if injection.lines != 0 && u64::from(places::current(ring).1) & injection.lines == 0 {
        return None;
    }
    let tid = ring.tid.load(Ordering::Relaxed);
    let number = count(key(session, tid, hook.number as u32))?;
    let from = number.checked_sub(injection.first)?;
    let falls = number <= injection.last && from.checked_rem(injection.step) == Some(0);
    (falls && pulse::beats()).then_some(injection)
}

/// Bits of a thread's id (`PID_MAX_LIMIT`, include/linux/threads.h), and of the number of a hook.
const OF_THREAD: u32 = 22;
const OF_HOOK: u32 = 20;

/// What names the calls of one system call's hook by one thread in one session; never 0, because sessions begin with 1.
fn key(session: u32, tid: u32, hook: u32) -> u64 {
    let hook = u64::from(hook) & ((1 << OF_HOOK) - 1);
    let thread = u64::from(tid) & ((1 << OF_THREAD) - 1);
    u64::from(session) << (OF_THREAD + OF_HOOK) | thread << OF_HOOK | hook
}

/// The number of this call among those of the same key, from 1; `None` = there is no room.
fn count(key: u64) -> Option<u64> {
    const OF_SESSION: u32 = OF_THREAD + OF_HOOK;
    let first = mix(key, 0) as usize;
    for step in 0..COUNTED {
        let met = &MET[first.wrapping_add(step) % COUNTED];
        let mut known = met.key.load(Ordering::Acquire);
        // A session before this one has left it.
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

/// Whether the thread can be had go on elsewhere: on a small stack the frame is a copy, and what is changed in it is lost.
pub fn can_replace(frame: *const ProbeFrame, stack: u64) -> bool {
    stack.wrapping_sub(frame.addr() as u64) < NEAR
}

/// The thread is about to make the call: waits, and has it go on behind the call if its result is injected.
///
/// # Safety
/// `frame` is the routine's, and [`can_replace`] was asked if the result is injected.
pub unsafe fn begins(injection: &Injection, place: &Hook, frame: *mut ProbeFrame) {
    sleep(injection.before);
    if injection.replaces == 0 {
        return;
    }
    // Bytes of a `syscall` or of a `call`.
    let length = if place.fixed == CALLED { 5 } else { 2 };
    // SAFETY: the caller's promise; the word is the return address that the stub's call has put there.
    unsafe {
        let registers = &raw mut (*frame).registers;
        let stack = (*registers)[RSP];
        (*registers)[RAX] = injection.result;
        (*registers)[RCX] = place.instruction + length;
        let back = (stack - RED_ZONE - PUSHED) as *mut u64;
        back.write(trampoline_elsewhere as *const () as u64);
    }
}

/// The call is over: waits.
pub fn ends(injection: &Injection) {
    sleep(injection.behind);
}

/// What the record of the return says in its second result.
pub fn mark(injected: u64) -> u64 {
    if injected == 0 {
        return 0;
    }
    // SAFETY: it was put there by `begins`; never freed.
    let injection = unsafe { &*(injected as *const Injection) };
    let replaced = if injection.replaces == 0 { 0 } else { REPLACED };
    let delayed = if injection.before | injection.behind == 0 {
        0
    } else {
        DELAYED
    };
    INJECTED | replaced | delayed
}

/// Sleeps so many nanoseconds, whatever signals come, unless the command is gone.
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
