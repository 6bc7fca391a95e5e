//! System calls by which a thread takes from itself what hooks need: the time stamp counter (`prctl(PR_SET_TSC)`, seccomp's
//! strict mode) and system calls (a seccomp filter, Syscall User Dispatch). Behind such a call the kernel would end the thread, or its process,
//! for the next hook that it comes through. So the command is told before the call is made, and leaves the process or
//! finds that the filter allows all that hooks do; where it does not answer in time, the thread closes the gate itself.
//!
//! A thread may also have forbidden itself the counter before it was watched, or have that from the thread that made it. Nobody
//! can see this from outside, so each thread asks the kernel itself before its first look at the counter in a session, and says the
//! same as if it was about to make such a call.

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

/// A function is called that is hooked for one of the reasons above, or another.
pub fn at_call(frame: &Frame, wanted: u64) {
    if wanted & want::LOCKS != 0 {
        before(special::PRCTL, [frame.rdi, frame.rsi, frame.rdx]);
    }
    if wanted & want::LOCKS_BY_NUMBER != 0 {
        before(frame.rdi, [frame.rsi, frame.rdx, frame.rcx]);
    }
}

/// A thread is about to make a system call with these as its first arguments.
pub fn before(number: u64, arguments: [u64; 3]) {
    if let Some(program) = program(number, arguments) {
        notices::locks(program);
    }
}

/// Whether the thread that runs here must not read the time-stamp counter. If so, the command was told when this returns,
/// and has left the process, or the gate is closed.
#[cold]
pub fn are_there() -> bool {
    let forbidden = !sys::reads_counter();
    if forbidden {
        notices::locks(locked::COUNTER);
    }
    forbidden
}

/// Returns for such a call the address of the filter's program that it sets, or which of [`locked`] it is. A call that the kernel refuses changes nothing: programs ask by a filter at
/// address 0 whether there are filters at all (EFAULT), and by strict mode with flags which of the kernel's interfaces there is (EINVAL).
fn program(number: u64, [first, second, third]: [u64; 3]) -> Option<u64> {
    use special::{PRCTL, SECCOMP};
    // The kernel looks at 32 bits of each.
    match (number & 0xffff_ffff, first as u32, second as u32) {
        (PRCTL, PR_SET_TSC, PR_TSC_SIGSEGV) | (PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => {
            Some(locked::COUNTER)
        }
        // `seccomp_set_mode_strict` is for neither flags nor an argument (kernel/seccomp.c, `do_seccomp`).
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
