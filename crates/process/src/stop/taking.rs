//! Seizes the threads of a stop.

use super::late::was_straggler;
use super::state::{thread_is_dead, tracer_of};
use super::thread::Thread;
use super::{BETWEEN, OPTIONS, Stop, UNTRACED};
use crate::error::{Error, Result, Tried};
use crate::proc_file::{own_thread, shown_by};
use crate::ptrace;
use nix::errno::Errno;
use std::time::Instant;

impl Stop {
    /// Seizes a thread, which goes on. Returns false if it has ended. One that this thread of ours traces already (it was seized for its
    /// exec) is kept: it goes on being traced afterwards.
    pub(super) fn take(&mut self, tid: i32, mut kept: bool) -> Result<bool> {
        if kept && shown_by(self.pid) != self.pid {
            // It is the zombie leader of living threads, which seizing refuses.
            return Ok(false);
        }
        if !kept && !was_straggler(self.pid, tid) {
            match ptrace::seize_within(tid, OPTIONS, &mut self.execs) {
                Ok(()) => {}
                // It has ended since the list was read, or is the zombie leader of living threads.
                Err(Errno::ESRCH) => return Ok(false),
                Err(Errno::EPERM) if thread_is_dead(self.pid, tid) => return Ok(false),
                Err(Errno::EPERM) => kept = self.seize_refused(tid)?,
                Err(errno) => return Err(self.not_seized(tid, errno)),
            }
        }
        if self.threads.is_empty() {
            // It has run until now, because seizing does not stop a thread.
            self.since = Instant::now();
        }
        self.threads.push(Thread {
            tid,
            stopped: false,
            grouped: false,
            kept,
            stays: false,
            interrupted: false,
        });
        Ok(true)
    }

    fn not_seized(&self, tid: i32, errno: Errno) -> Error {
        match errno {
            // An exec of another thread has ended the first one, which we trace: it stands there until its tracer sets it going.
            Errno::EBUSY => Error::AtEvent { tid: self.pid },
            Errno::ETIMEDOUT => Error::WouldNotStop {
                pid: self.pid,
                tid,
                place: " (an execve of its process)".to_owned(),
            },
            errno => ptrace::explain(self.pid, &format!("seizing thread {tid}"), errno),
        }
    }

    /// Finds out why a thread may not be seized: another process traces it, or we may not. Another lancet's stop may end
    /// before its tracer is read, and its next stop may begin before the thread is seized after all. Returns whether this thread of
    /// ours traces it already and goes on with that: only who has seized a thread may stop it.
    fn seize_refused(&mut self, tid: i32) -> Result<bool> {
        for _ in 0..UNTRACED {
            let tracer = tracer_of(tid);
            if tracer != 0 && Some(tracer) == own_thread() {
                // A straggler may have got this id from its exec.
                return Ok(!was_straggler(self.pid, tid));
            }
            if tracer != 0 {
                return Err(crate::guest::traced(self.pid, tracer));
            }
            match ptrace::seize_within(tid, OPTIONS, &mut self.execs) {
                Ok(()) => return Ok(false),
                Err(errno @ (Errno::EBUSY | Errno::ETIMEDOUT)) => {
                    return Err(self.not_seized(tid, errno));
                }
                Err(_) => std::thread::sleep(BETWEEN),
            }
        }
        Err(crate::guest::why_not_allowed(self.pid, Tried::Seize))
    }
}
