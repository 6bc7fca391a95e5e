//! Handles system calls by which a thread gives up what hooks need: the time-stamp counter (`prctl(PR_SET_TSC)`, seccomp's strict mode) and
//! system calls (a seccomp filter, Syscall User Dispatch). After such a call the kernel would end the thread, or its process, in the next
//! hook that it passes. So the command is informed before the call is made, and leaves the process or finds that the filter allows all that
//! hooks do. If it does not answer in time, the thread closes the gate itself. Used by `call`, `children`, `notices`
//! and others.
//!
//! A thread may also have given up the counter before it was watched, or have inherited that from the thread that made it. This cannot be
//! seen from outside, so each thread asks the kernel before it first reads the counter in a session, and informs the command in the same
//! way.

use super::notices;
use crate::memory::sys;
use routine::Frame;
use wire::calls::{special, want};
use wire::notices::locked;

// include/uapi/linux/prctl.h
const PR_SET_SECCOMP: u32 = 22;
const PR_SET_TSC: u32 = 26;
const PR_TSC_SIGSEGV: u32 = 2;
const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;
const PR_SYS_DISPATCH_EXCLUSIVE_ON: u32 = 1;
const PR_SYS_DISPATCH_INCLUSIVE_ON: u32 = 2;

// include/uapi/linux/seccomp.h; `prctl` has numbers of its own.
const SECCOMP_MODE_STRICT: u32 = 1;
const SECCOMP_MODE_FILTER: u32 = 2;
const SECCOMP_SET_MODE_STRICT: u32 = 0;
const SECCOMP_SET_MODE_FILTER: u32 = 1;

/// Handles the call of a function that is hooked for one of these reasons, or for another.
pub fn at_call(frame: &Frame, wanted: u64) {
    if wanted & want::LOCKS != 0 {
        before(special::PRCTL, [frame.rdi, frame.rsi, frame.rdx]);
    }
    if wanted & want::LOCKS_BY_NUMBER != 0 {
        before(frame.rdi, [frame.rsi, frame.rdx, frame.rcx]);
    }
}

/// Handles a system call that the thread is about to make; `arguments` are the first three.
pub fn before(number: u64, arguments: [u64; 3]) {
    if let Some(program) = program(number, arguments) {
        notices::locks(program);
    }
}

/// Whether the running thread must not read the time-stamp counter. If so, the command was informed when this returns, and has left the
/// process, or the gate is closed.
#[cold]
pub fn are_there() -> bool {
    let forbidden = !sys::reads_counter();
    if forbidden {
        notices::locks(locked::COUNTER);
    }
    forbidden
}

/// Returns for such a call the address of the filter's program that it sets, or a number of [`locked`]. A call that the kernel refuses
/// changes nothing: programs set a filter at address 0 to learn whether filters exist at all (EFAULT), and strict mode with flags to learn
/// which interface the kernel has (EINVAL).
fn program(number: u64, [first, second, third]: [u64; 3]) -> Option<u64> {
    use special::{PRCTL, SECCOMP};
    // The kernel looks at 32 bits of each.
    match (number & 0xffff_ffff, first as u32, second as u32) {
        (PRCTL, PR_SET_TSC, PR_TSC_SIGSEGV) | (PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => {
            Some(locked::COUNTER)
        }
        // `seccomp_set_mode_strict` refuses flags and an argument (kernel/seccomp.c, `do_seccomp`).
        (SECCOMP, SECCOMP_SET_MODE_STRICT, 0) if third == 0 => Some(locked::COUNTER),
        (PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER) | (SECCOMP, SECCOMP_SET_MODE_FILTER, _) => {
            (third > locked::DISPATCH).then_some(third)
        }
        (
            PRCTL,
            PR_SET_SYSCALL_USER_DISPATCH,
            PR_SYS_DISPATCH_EXCLUSIVE_ON | PR_SYS_DISPATCH_INCLUSIVE_ON,
        ) => Some(locked::DISPATCH),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
