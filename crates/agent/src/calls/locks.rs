//! System calls by which a thread takes from itself what hooks need: the time stamp counter (`prctl(PR_SET_TSC)`, seccomp's
//! strict mode) and system calls (a seccomp filter). Behind such a call the kernel would end the thread, or its process,
//! for the next hook that it comes through. So the command is told before the call is made, and leaves the process or
//! finds that the filter allows all that hooks do; where it does not answer in time, the thread closes the gate itself.

use super::notices;
use routine::Frame;
use wire::calls::want;

// Numbers: Linux arch/x86/entry/syscalls/syscall_64.tbl.
const PRCTL: u32 = 157;
const SECCOMP: u32 = 317;

// include/uapi/linux/prctl.h
const PR_SET_SECCOMP: u32 = 22;
const PR_SET_TSC: u32 = 26;
const PR_TSC_SIGSEGV: u32 = 2;

// include/uapi/linux/seccomp.h; `prctl` has numbers of its own.
const SECCOMP_MODE_STRICT: u32 = 1;
const SECCOMP_MODE_FILTER: u32 = 2;
const SECCOMP_SET_MODE_STRICT: u32 = 0;
const SECCOMP_SET_MODE_FILTER: u32 = 1;

/// Whether a system call may be of that kind.
#[inline(always)]
pub fn may(number: u64) -> bool {
    // The kernel looks at 32 bits.
    matches!(number as u32, PRCTL | SECCOMP)
}

/// A function is called that is hooked for one of the reasons above, or another.
pub fn at_call(frame: &Frame, wanted: u64) {
    if wanted & want::LOCKS != 0 {
        before(PRCTL.into(), [frame.rdi, frame.rsi, frame.rdx]);
    }
    if wanted & want::LOCKS_BY_NUMBER != 0 {
        before(frame.rdi, [frame.rsi, frame.rdx, frame.rcx]);
    }
}

/// A thread is about to make a system call with these as its first arguments.
pub fn before(number: u64, arguments: [u64; 3]) {
    if let Some(program) = program(number as u32, arguments) {
        notices::locks(program);
    }
}

/// If it is such a call: the address of the filter's program that it sets, 0 = it forbids everything.
fn program(number: u32, [first, second, third]: [u64; 3]) -> Option<u64> {
    match (number, first as u32, second as u32) {
        (PRCTL, PR_SET_TSC, PR_TSC_SIGSEGV) | (PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => {
            Some(0)
        }
        (PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER) => Some(third),
        (SECCOMP, SECCOMP_SET_MODE_STRICT, _) => Some(0),
        (SECCOMP, SECCOMP_SET_MODE_FILTER, _) => Some(third),
        _ => None,
    }
}
