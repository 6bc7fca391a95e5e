//! Processor time, and memory where it ends, that lancet leaves to others: its own threads that work for a while beside a guest, and the copy of a guest.
//!
//! A process with threads of lancet's and a copy beside it would get only one processor's share among many. So each of these gets a
//! niceness a few steps lower in priority, and not the lowest: on a busy machine a thread of niceness 19 gets a hundredth of a processor,
//! so that a copy lived for a hundred seconds instead of three (measured on two processors at a load of 6), and the guest has to copy each
//! page that it writes meanwhile.
//!
//! The priority is never raised again: that needs a right (`RLIMIT_NICE`), and a thread that holds a guest still must never have been
//! lowered.

use std::fs;
use std::panic::resume_unwind;
use std::thread;

use nix::errno::Errno;
use nix::unistd::{Pid, getsid};

/// Steps of niceness: a thread has a third of the weight of one that was not lowered (`sched_prio_to_weight`, `kernel/sched/core.c`).
const STEPS: i32 = 5;
/// The niceness with the lowest priority.
const LOWEST: i32 = 19;

/// Lowers the priority of the calling thread. Only for threads that never stop a guest and end with their work.
pub fn lower_this_thread() {
    // To the kernel, 0 means the calling thread and not its process.
    lower(0);
}

/// Does long work in a thread with lowered priority, and in the threads that it starts. Returns the result.
pub fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            lower_this_thread();
            work()
        });
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Lowers the priority of a process that is a copy of a guest, has one thread, and is not waited for. What the kernel refuses stays
/// unchanged.
pub fn lower_copy(pid: i32) {
    // It has inherited the guest's policy; a real-time one would take a processor from the guest for as long as the copy works.
    let other = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calls take integers and the address of `other`, a live value of this frame.
    unsafe {
        let policy = libc::sched_getscheduler(pid) & !libc::SCHED_RESET_ON_FORK;
        if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
            libc::sched_setscheduler(pid, libc::SCHED_OTHER, &raw const other);
        }
    }
    lower(pid);
    // To the scheduler, a session of its own is a group of its own (sched(7), "The autogroup feature"), in which its niceness has no effect
    // outside. Without one, its group is the guest's, and is not changed.
    if getsid(Some(Pid::from_raw(pid))) == Ok(Pid::from_raw(pid)) {
        // A kernel without the feature has no such file.
        let _ = fs::write(format!("/proc/{pid}/autogroup"), STEPS.to_string());
    }
}

/// Has the kernel end this process before others where memory ends. It stays so, and programs that it starts would have it, too.
pub fn end_before_others() {
    // Everyone may raise it; where there is no `/proc` it stays as it was.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

fn lower(id: i32) {
    let Some(now) = niceness(id) else {
        return;
    };
    let then = (now + STEPS).min(LOWEST);
    // SAFETY: the call takes integers and writes no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, id as libc::id_t, then) };
}

/// Returns the niceness of a thread, -20 to 19; `None` if there is no such thread.
fn niceness(id: i32) -> Option<i32> {
    Errno::clear();
    // SAFETY: the call takes integers and writes no memory.
    let found = unsafe { libc::getpriority(libc::PRIO_PROCESS, id as libc::id_t) };
    // -1 is a valid niceness, too.
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
