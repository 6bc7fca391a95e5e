//! Threads that do not stop in time, and the wait for a thread's stop.
//!
//! A thread of ours that does not stand still cannot be let go. It is put down among the stragglers: an interrupt is
//! pending for it, so it stops before it runs any of its program's code, and [`poll_stragglers`] lets it go then.

use super::thread_is_dead;
use crate::interrupted::repeat_call;
use crate::ptrace::{self, Event};
use nix::errno::Errno;
use std::cell::RefCell;
use std::time::Instant;

thread_local! {
    /// Threads that we have seized and that did not stop in time (uninterruptible waits, no processor). A list for each
    /// thread of ours, because only the thread that seized may let go.
    static STRAGGLERS: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of threads that have come to stand still since we gave up on them. To be called often.
pub fn poll_stragglers() {
    STRAGGLERS.with_borrow_mut(|all| {
        all.retain(
            |tid| match wait_until_interrupted(*tid, Instant::now(), &mut Vec::new()) {
                Waited::Stopped(_) | Waited::At(_) => {
                    repeat_call(*tid, *tid);
                    let _ = ptrace::detach(*tid, 0);
                    false
                }
                Waited::Gone => false,
                Waited::Late => true,
            },
        );
    });
}

/// Takes a thread back from the stragglers: it is ours already.
pub(super) fn was_straggler(tid: i32) -> bool {
    STRAGGLERS.with_borrow_mut(|all| match all.iter().position(|other| *other == tid) {
        Some(at) => {
            all.swap_remove(at);
            true
        }
        None => false,
    })
}

pub(super) enum Waited {
    /// With the signal of a group stop, or `SIGTRAP`.
    Stopped(i32),
    Gone,
    /// A `PTRACE_EVENT_*` that whoever keeps the thread asked for; it stands there.
    At(i32),
    Late,
}

/// Waits for the stop an interrupt brings, handing on signals that come before it; which, is noted.
pub(super) fn wait_until_interrupted(
    tid: i32,
    deadline: Instant,
    handed_on: &mut Vec<i32>,
) -> Waited {
    loop {
        let resumed = match ptrace::wait(tid, deadline) {
            Ok(Event::Interrupted(signal)) => return Waited::Stopped(signal),
            Ok(Event::Signal(signal)) => {
                ptrace::resume(tid, signal).map(|()| handed_on.push(signal))
            }
            Ok(Event::Special(event)) => return Waited::At(event),
            // Any stop of another kind takes back an interrupt that is pending (`ptrace_stop`, kernel/signal.c).
            Ok(Event::Syscall) => ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0)),
            Ok(Event::Exited(_) | Event::Killed(_)) | Err(_) => return Waited::Gone,
            Ok(Event::Nothing) => return Waited::Late,
        };
        // If not, it was woken, by SIGKILL as far as we know; what becomes of it is told next.
        if resumed.is_err() && thread_is_dead(tid, tid) {
            return Waited::Gone;
        }
    }
}

/// Puts a thread down among the stragglers.
pub(super) fn is_late(tid: i32) {
    STRAGGLERS.with_borrow_mut(|all| all.push(tid));
}

/// Ends the tracing of thread `tid`, which runs or stands at something that nobody has been told of. A child that it has
/// just made, which the kernel has put under our tracing, is let go too. A thread that does not stop within
/// [`ptrace::LONGEST_WAIT`] is let go by [`poll_stragglers`] as soon as it does.
pub fn let_go(tid: i32) -> std::result::Result<(), Errno> {
    let gone_is_fine = |result| match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    };
    if let Err(errno) = ptrace::interrupt(tid) {
        return gone_is_fine(Err(errno));
    }
    gone_is_fine(
        match ptrace::wait(tid, Instant::now() + ptrace::LONGEST_WAIT)? {
            Event::Nothing => {
                is_late(tid);
                Ok(())
            }
            Event::Exited(_) | Event::Killed(_) => Ok(()),
            // One that the program ignores would not have interrupted its call without us.
            Event::Signal(signal) => {
                repeat_call(tid, tid);
                ptrace::detach(tid, signal)
            }
            Event::Special(
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
            ) => {
                if let Ok(child) = ptrace::event_message(tid) {
                    let_go(child as i32)?;
                }
                ptrace::detach(tid, 0)
            }
            Event::Special(_) | Event::Interrupted(_) | Event::Syscall => {
                repeat_call(tid, tid);
                ptrace::detach(tid, 0)
            }
        },
    )
}
