//! One thread of a stop: asked to stand still, and set going again. Used by `stop` and `taking`.

use super::PATIENCE;
use super::late::{Waited, hear_end, is_late, wait_until_interrupted};
use super::state::thread_state;
use crate::error::Result;
use crate::interrupted;
use crate::ptrace;
use nix::errno::Errno;
use std::time::Instant;

/// A thread that is to stand still.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its id.
    pub(super) tid: i32,
    /// Whether it stands.
    pub(super) stopped: bool,
    /// Whether it is in a group stop, because of SIGSTOP or a similar signal.
    pub(super) grouped: bool,
    /// Whether we traced it before this stop, and go on tracing it afterwards.
    pub(super) kept: bool,
    /// Whether it stood still before this stop, and is left standing afterwards.
    pub(super) stays: bool,
    /// Whether it was asked to stop; until then it is seized and runs.
    pub(super) interrupted: bool,
}

impl Thread {
    /// Asks it to stop. That it has ended is found by those who wait for it.
    pub(super) fn interrupt(&mut self, pid: i32) -> Result<()> {
        self.interrupted = true;
        match ptrace::interrupt(self.tid) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(ptrace::explain(pid, "interrupting a thread", errno)),
        }
    }

    /// Sets the thread of process `pid` going, or adds it to the stragglers: a thread that does not stand still cannot be let go, and one that
    /// stops later must not stand for ever.
    pub(super) fn let_go(self, pid: i32) {
        if self.stays {
            return;
        }
        // A group stop goes on: by itself after a detach, otherwise by `listen`.
        let freed = |thread: &Thread| {
            if !thread.kept {
                ptrace::detach(thread.tid, 0)
            } else if in_group_stop(thread.tid) {
                ptrace::listen(thread.tid)
            } else {
                ptrace::resume(thread.tid, 0)
            }
        };
        if self.stopped && freed(&self).is_ok() {
            return;
        }
        // It has ended, or it runs.
        if ptrace::interrupt(self.tid).is_err() {
            // Its end must be heard: until then an exec of another thread waits for it, and a parent for the process.
            return match self.kept {
                true => (),
                false => hear_end(pid, self.tid),
            };
        }
        if !self.kept && thread_state(self.tid, self.tid) == Some('D') {
            // It stops when its wait in the kernel is over, before it runs any of its program's code.
            return is_late(pid, self.tid);
        }
        match wait_until_interrupted(self.tid, Instant::now() + PATIENCE, &mut Vec::new()) {
            Waited::Stopped(_) => {
                interrupted::repeat_call(self.tid, self.tid);
                let _ = freed(&self);
            }
            Waited::At(event) if self.kept => ptrace::put_back(self.tid, event),
            Waited::Unknown if !self.kept => hear_end(pid, self.tid),
            Waited::Gone | Waited::Unknown | Waited::At(_) => {}
            Waited::Late if self.kept => {}
            Waited::Late => is_late(pid, self.tid),
        }
    }
}

/// Whether a thread that stands still is in a group stop. It may have entered it since it was first seen standing, because a
/// remote call goes on through a group stop.
fn in_group_stop(tid: i32) -> bool {
    let stands = ptrace::signal_information(tid);
    // The last stop's signal and event, in the form of wait(2) (`ptrace_do_notify`, kernel/signal.c).
    stands.is_ok_and(|stands| {
        stands.si_code >> 8 == libc::PTRACE_EVENT_STOP && stands.si_code & 0xff != libc::SIGTRAP
    })
}
