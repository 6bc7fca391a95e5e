//! What `GC.compact` would give back, found out in a copy of the program, which is ended afterwards.
//!
//! A collection runs code of the program's: finalizers, and what C types free. In the copy it must have no effect on anything else. So, before
//! the VM is asked:
//!
//! - every descriptor but our pipe is closed already (`child`);
//! - memory that the program shares with others is made read-only, by the list that the command has written from `/proc/CHILD/maps`;
//! - a seccomp filter lets through what concerns the copy's own memory, locks and clock alone. Everything else is answered EPERM: files, sockets,
//!   signals, other processes.
//!
//! Where the program has switched collections off, the copy switches them on again: 2.7 compacts nothing otherwise.
//!
//! Whatever is then run can write the copy's own memory and nothing else. If the command dies meanwhile its end of the pipe is closed, for
//! which the kernel sends SIGIO (`pipe_release`, `fs/pipe.c`), which ends the copy; an alarm does so in any case.

use super::pipe;
use crate::births::agent::AGENT;
use crate::births::names::Type;
use crate::memory::sys::{self, child, confine};
use crate::shared::SNAPSHOT;
use core::sync::atomic::Ordering;
use wire::snapshot::Stage;

/// Seconds that it may take. The command is less patient.
const ALARM: u64 = 60;
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

/// Has the VM compact its heap, and says in `stage` how that went. In the child, which has the VM's lock and no other thread.
pub fn run(write: u64) {
    child::alarm(ALARM);
    confine::end_without_reader(write);
    let shared = SNAPSHOT.shared_count.load(Ordering::Acquire);
    for range in SNAPSHOT.shared.iter().take(shared as usize) {
        let [start, bytes] = [&range[0], &range[1]].map(|word| word.load(Ordering::Relaxed));
        if !sys::protect(start, bytes, READ) {
            return refuse();
        }
    }
    if !confine::allow_only(&ALLOWED) {
        return refuse();
    }
    // SAFETY: nobody else runs in this process.
    let vm = unsafe { (*(&raw const AGENT)).vm };
    if !count_pages(0) {
        return refuse();
    }
    let mut state = 0;
    // SAFETY: the VM's lock is held, at a safe point; the text ends with a zero.
    unsafe { vm.run(c"GC.enable; GC.compact".as_ptr().cast(), &raw mut state) };
    if state != 0 || !count_pages(1) {
        return refuse();
    }
    SNAPSHOT
        .stage
        .store(Stage::Compacted as u32, Ordering::Release);
    pipe::go_on();
}

/// Counts the pages of the heap, and those in which there is no object: the first time or the second.
fn count_pages(time: usize) -> bool {
    // SAFETY: nobody else runs in this process.
    let agent = unsafe { &*(&raw const AGENT) };
    let Some(ruby) = agent.names.reader() else {
        return false;
    };
    let Ok(pages) = ruby.pages() else {
        return false;
    };
    let (mut all, mut empty) = (0, 0);
    for page in pages.flatten() {
        all += 1;
        let has_object = ruby.slots(page).flatten().any(|slot| {
            // What compaction has left at the old place of an object is none.
            let of = Type::of(slot.flags);
            !matches!(
                of,
                Type::None | Type::Moved | Type::Zombie | Type::Node | Type::Unknown
            )
        });
        empty += u64::from(!has_object);
    }
    let [pages, without] = &SNAPSHOT.pages[time];
    pages.store(all, Ordering::Relaxed);
    without.store(empty, Ordering::Relaxed);
    true
}

fn refuse() {
    SNAPSHOT
        .stage
        .store(Stage::Refused as u32, Ordering::Release);
}
