//! Threads that do not stop in time, and the wait for a thread's stop.
//!
//! A thread that does not stand still cannot be let go. It is added to the stragglers: an interrupt is pending for it,
//! so it stops before it runs any of its program's code, and [`poll_stragglers`] then lets it go.

use super::state::thread_is_dead;
use crate::interrupted::repeat_call;
use crate::ptrace::{self, Event};
use nix::errno::Errno;
use std::cell::RefCell;
use std::time::Instant;

thread_local! {
    /// Threads that were seized and did not stop in time (uninterruptible waits, no processor). Each thread of ours has
    /// a list, because only the thread that has seized one may let it go.
    static STRAGGLERS: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of stragglers that have stopped meanwhile. It should be called often.
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

/// Removes a thread from the stragglers, if it is one: it is seized already.
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
    /// In an interrupt stop (`SIGTRAP`), or in a group stop by this signal.
    Stopped(i32),
    Gone,
    /// At a `PTRACE_EVENT_*` that its tracer has asked for; it stands there.
    At(i32),
    Late,
}

/// Waits for the stop that an interrupt causes. Signals that come before it are delivered and noted.
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
            // Any stop of another kind cancels a pending interrupt (`ptrace_stop`, kernel/signal.c).
            Ok(Event::Syscall) => ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0)),
            Ok(Event::Exited(_) | Event::Killed(_)) | Err(_) => return Waited::Gone,
            // The end of a first thread is not told before the others have ended.
            Ok(Event::Nothing) if thread_is_dead(tid, tid) => return Waited::Gone,
            Ok(Event::Nothing) => return Waited::Late,
        };
        // If that failed, the thread was woken up, by SIGKILL as far as is known; its end is reported next.
        if resumed.is_err() && thread_is_dead(tid, tid) {
            return Waited::Gone;
        }
    }
}

/// Adds a thread to the stragglers.
pub(super) fn is_late(tid: i32) {
    STRAGGLERS.with_borrow_mut(|all| all.push(tid));
}

/// Hears of the end of a thread that we have seized; if the kernel does not tell it yet, [`poll_stragglers`] does. That of a first thread is
/// told when all others have ended.
pub(super) fn hear_end(tid: i32) {
    if let Waited::Late = wait_until_interrupted(tid, Instant::now(), &mut Vec::new()) {
        is_late(tid);
    }
}

/// Ends the tracing of thread `tid`, which runs or stands at an event that was not reported. A child that it has just
/// made, which the kernel has put under our tracing, is let go too. A thread that does not stop within
/// [`ptrace::LONGEST_WAIT`] is let go by [`poll_stragglers`] as soon as it does.
pub fn let_go(tid: i32) -> std::result::Result<(), Errno> {
    let gone_is_fine = |result| match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    };
    if let Err(errno) = ptrace::interrupt(tid) {
        return gone_is_fine(Err(errno));
    }
    let until = Instant::now() + ptrace::LONGEST_WAIT;
    let mut event = ptrace::wait(tid, until)?;
    // A thread that is followed from call to call stops at the end of its call first, with EINTR as the result, and that stop has cancelled
    // the interrupt. Only at an interrupt's own stop can the call be made again.
    while event == Event::Syscall {
        let goes_on = ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0));
        if let Err(errno) = goes_on {
            return gone_is_fine(Err(errno));
        }
        event = ptrace::wait(tid, until)?;
    }
    gone_is_fine(match event {
        Event::Nothing => {
            is_late(tid);
            Ok(())
        }
        Event::Exited(_) | Event::Killed(_) => Ok(()),
        // A signal that the program ignores would not have interrupted its call without us.
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
    })
}
