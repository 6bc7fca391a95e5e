//! Processor time that lancet leaves to others: its own threads that work for a while beside a guest, and the copy of a guest.
//!
//! A process with threads of lancet's and a copy beside it would get one processor's share among many. Each of these is made a few steps of
//! niceness lower, and not the lowest: on a busy machine a thread of niceness 19 gets a hundredth of a processor, so that a copy lived for a
//! hundred seconds where it lives for three (measured on two processors at a load of 6), and the guest has to copy each page that it writes meanwhile.
//!
//! Nothing is ever made higher again: that needs a right (`RLIMIT_NICE`), and a thread that holds a guest still must never have been lowered.

use std::fs;
use std::panic::resume_unwind;
use std::thread;

use nix::errno::Errno;
use nix::unistd::{Pid, getsid};

/// Steps of niceness: a thread has a third of the weight of one that was not lowered (`sched_prio_to_weight`, `kernel/sched/core.c`).
const STEPS: i32 = 5;
/// The lowest priority there is.
const LOWEST: i32 = 19;

/// Lowers the calling thread. Only for threads that never stop a guest and end with their work.
pub fn lower_this_thread() {
    // To the kernel 0 is the calling thread, and not its process.
    lower(0);
}

/// Does what takes long in a thread that is lowered, with those that it starts, and returns what it has returned.
pub fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            lower_this_thread();
            work()
        });
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Lowers a process that is a copy of a guest, has one thread, and nobody waits for. What the kernel refuses stays as it was.
pub fn lower_copy(pid: i32) {
    // It has inherited the guest's policy, and one in real time would take a processor from the guest for as long as it works.
    let other = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain call; `other` is live.
    unsafe {
        let policy = libc::sched_getscheduler(pid) & !libc::SCHED_RESET_ON_FORK;
        if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
            libc::sched_setscheduler(pid, libc::SCHED_OTHER, &raw const other);
        }
    }
    lower(pid);
    // A session of its own is a group of its own to the scheduler (sched(7), "The autogroup feature"), in which its niceness counts for nothing. Where
    // it has none the group is the guest's, and left alone.
    if getsid(Some(Pid::from_raw(pid))) == Ok(Pid::from_raw(pid)) {
        // There is no such file on a kernel without the feature.
        let _ = fs::write(format!("/proc/{pid}/autogroup"), STEPS.to_string());
    }
}

fn lower(id: i32) {
    let Some(now) = niceness(id) else {
        return;
    };
    let then = (now + STEPS).min(LOWEST);
    // SAFETY: a plain call without memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, id as libc::id_t, then) };
}

/// Returns the niceness of a thread, -20 to 19; `None` if there is no such thread.
fn niceness(id: i32) -> Option<i32> {
    Errno::clear();
    // SAFETY: a plain call without memory.
    let found = unsafe { libc::getpriority(libc::PRIO_PROCESS, id as libc::id_t) };
    // -1 is a niceness, too.
    (found != -1 || Errno::last_raw() == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_alone_is_lowered_and_never_beyond_the_lowest() {
        let before = niceness(0).expect("there is this thread");
        let lowered = thread::spawn(|| {
            let mut seen = Vec::new();
            for _ in 0..12 {
                lower_this_thread();
                seen.extend(niceness(0));
            }
            seen
        });
        let seen = lowered.join().expect("no panic");
        assert_eq!(seen.first(), Some(&(before + STEPS).min(LOWEST)));
        assert_eq!(seen.last(), Some(&LOWEST));
        assert_eq!(niceness(0), Some(before));
    }
}
