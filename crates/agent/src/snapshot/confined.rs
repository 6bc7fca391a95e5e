//! A copy that may have an effect on nothing but its own memory, for what runs code of the program's in it. Used by
//! `languages::ruby::snapshot::compact` and `allocator`.
//!
//! - every descriptor but our pipe is closed already (`child`);
//! - memory that the program shares with others is made read-only, by the list that the command has written from `/proc/CHILD/maps`;
//! - a seccomp filter lets through what concerns the copy's own memory, locks and clock alone. Everything else is answered EPERM: files, sockets,
//!   signals, other processes.
//!
//! If the command dies meanwhile its end of the pipe is closed, for which the kernel sends SIGIO (`pipe_release`, `fs/pipe.c`), which ends the
//! copy; an alarm does so in any case.

use crate::memory::sys::{self, child, confine};
use crate::shared::SNAPSHOT;
use core::sync::atomic::Ordering;
use wire::snapshot::Stage;

/// Seconds that it may take. The command is less patient.
const ALARM: u64 = 60;
const SIGALRM: u64 = 14;
/// `PROT_READ` (`asm-generic/mman-common.h`).
const READ: u64 = 1;

/// System calls that have an effect on the caller's own memory, locks, signals and clock alone (`asm/unistd_64.h`).
const ALLOWED: [u32; 26] = [
    7,   // poll
    9,   // mmap
    10,  // mprotect
    11,  // munmap
    12,  // brk
    13,  // rt_sigaction
    14,  // rt_sigprocmask
    15,  // rt_sigreturn
    24,  // sched_yield
    25,  // mremap
    28,  // madvise
    35,  // nanosleep
    38,  // setitimer
    39,  // getpid
    60,  // exit
    96,  // gettimeofday
    98,  // getrusage
    100, // times
    131, // sigaltstack
    186, // gettid
    202, // futex
    228, // clock_gettime
    229, // clock_getres
    230, // clock_nanosleep
    231, // exit_group
    318, // getrandom
];

/// Confines this process for ever; whether the kernel has done all of it. `write` is the writing end of its pipe.
pub fn confine(write: u64) -> bool {
    child::default_action(SIGALRM);
    child::alarm(ALARM);
    confine::end_without_reader(write);
    let shared = SNAPSHOT.shared_count.load(Ordering::Acquire);
    for range in SNAPSHOT.shared.iter().take(shared as usize) {
        let [start, bytes] = [&range[0], &range[1]].map(|word| word.load(Ordering::Relaxed));
        if !sys::protect(start, bytes, READ) {
            return false;
        }
    }
    confine::allow_only(&ALLOWED)
}

/// Says how far it has come.
pub fn say(stage: Stage) {
    SNAPSHOT.stage.store(stage as u32, Ordering::Release);
}
