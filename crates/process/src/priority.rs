//! Processor time, and memory where it ends, that lancet leaves to others: its own threads that work for a while beside a guest, and the copy of a guest.
//! Used by `ptrace::bounded` and `stop`, and by most crates above.
//!
//! A process with threads of lancet's and a copy beside it would get only one processor's share among many. So each of these gets a
//! niceness a few steps lower in priority, and not the lowest: on a busy machine a thread of niceness 19 gets a hundredth of a processor,
//! so that a copy lived for a hundred seconds instead of three (measured on two processors at a load of 6), and the guest has to copy each
//! page that it writes meanwhile.
//!
//! What was lowered is never raised again: that needs a right (`RLIMIT_NICE`), and a thread that holds a guest still must never have been
//! lowered.
//!
//! The other way round, a thread of lancet's that holds all threads of a guest still comes before others where it may (`FirstInLine`).
//! Each moment in which it has no processor is one more in which the guest stands. Stopping 5,000 threads takes some 60 ms of a processor;
//! at a load of ten on two of them that took 200 to 470 ms, and 65 to 95 ms with this. So does one that looks at a guest again and again
//! and takes little time for it: at a load of 19 on two processors half of its looks came late, and 0.5 % with this.

use std::cell::Cell;
use std::fs;
use std::panic::resume_unwind;
use std::thread;

use nix::errno::Errno;
use nix::unistd::{Pid, getsid};

/// Steps of niceness: a thread has a third of the weight of one that was not lowered (`sched_prio_to_weight`, `kernel/sched/core.c`).
const STEPS: i32 = 5;
/// The niceness with the lowest priority.
const LOWEST: i32 = 19;

/// The thread that has made it comes before all others that want a processor, until this is dropped: it is in real time (`SCHED_FIFO`), of
/// the lowest priority there. A niceness would not do, because it has no effect outside of a control group or a session (sched(7), "The
/// autogroup feature"). It takes `CAP_SYS_NICE` or `RLIMIT_RTPRIO`; without them everything stays as it was. Programs that it starts meanwhile do not
/// inherit it. While it waits it must sleep (`is_first`), because the thread that it waits for may be next on the same processor.
#[derive(Debug)]
pub struct FirstInLine {
    /// The thread, and its policy before; `None` = it stays as it was.
    before: Option<(i32, i32)>,
}

thread_local! {
    /// Whether this thread is first in line.
    static FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread comes before others ([`FirstInLine`]).
pub(crate) fn is_first() -> bool {
    FIRST.get()
}

impl FirstInLine {
    /// From now on, if that is allowed.
    pub fn begin() -> Self {
        // SAFETY: the calls take integers.
        let (policy, tid) = unsafe { (libc::sched_getscheduler(0), libc::gettid()) };
        let is_in_turn = matches!(
            policy & !libc::SCHED_RESET_ON_FORK,
            libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE
        );
        let raised = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        let done = policy >= 0 && is_in_turn && set_policy(tid, raised, 1);
        if done {
            FIRST.set(true);
        }
        FirstInLine {
            before: done.then_some((tid, policy)),
        }
    }
}

impl Drop for FirstInLine {
    fn drop(&mut self) {
        if let Some((tid, policy)) = self.before {
            set_policy(tid, policy, 0);
            FIRST.set(false);
        }
    }
}

/// Whether a thread comes before all others that are not in real time.
pub fn is_real_time(tid: i32) -> bool {
    matches!(
        policy_of(tid),
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE
    )
}

/// Returns the policy of a thread.
fn policy_of(tid: i32) -> i32 {
    // SAFETY: the call takes an integer.
    unsafe { libc::sched_getscheduler(tid) & !libc::SCHED_RESET_ON_FORK }
}

/// Sets the policy of a thread and its priority in real time, and returns whether that was done. Its niceness stays.
fn set_policy(tid: i32, policy: i32, sched_priority: i32) -> bool {
    let priority = libc::sched_param { sched_priority };
    // SAFETY: the call takes integers and the address of `priority`, a live value of this frame, which it reads.
    unsafe { libc::sched_setscheduler(tid, policy, &raw const priority) == 0 }
}

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
    let policy = policy_of(pid);
    if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
        set_policy(pid, libc::SCHED_OTHER, 0);
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

    /// Also for an ordinary user: nothing changes then.
    #[test]
    fn who_was_first_in_line_is_afterwards_as_before() {
        thread::spawn(|| {
            lower_this_thread();
            // SAFETY: the call takes an integer.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            let before = (policy(), niceness(0));
            let first = FirstInLine::begin();
            let raised = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
            assert_eq!(is_first(), policy() == raised);
            if is_first() {
                // Only one of two is in force, and the outer one ends it.
                drop(FirstInLine::begin());
                assert_eq!(policy(), raised);
                // What it starts meanwhile is as all others.
                let other = thread::spawn(policy);
                assert_eq!(other.join().expect("no panic"), libc::SCHED_OTHER);
            }
            drop(first);
            assert_eq!((policy(), niceness(0)), before);
            assert!(!is_first());
        })
        .join()
        .expect("no panic");
    }
}
