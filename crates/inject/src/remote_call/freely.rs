//! Calls of a function that waits for the VM's lock, while the other threads run.

use super::{CALL_PATIENCE, LONG_CALL_PATIENCE, LOOK, RemoteThread, unknown_stack};
use process::error::Result;
use process::ptrace::{self, Event};
use process::stop;
use std::time::{Duration, Instant};

/// How long a thread may take from the end of its work to its `rt_sigreturn`.
const HOMECOMING: Duration = Duration::from_secs(5);
/// The time between two looks when the call has lasted for [`SOON`].
const LATER_LOOK: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_millis(20);

/// How far the work is that a thread was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The thread has not begun it: it waits for the VM's lock.
    Waits,
    /// It has the lock.
    UnderWay,
    /// It is done.
    Done,
}

impl RemoteThread<'_> {
    /// Calls the function at `address` like [`call`](Self::call), one that waits for the VM's lock and needs the guest's other threads to run: signals
    /// are delivered meanwhile. It is waited for until `deadline`, and longer once its work is under way. When that is done it soon
    /// returns; if it does not, an exception has taken the thread elsewhere, and it is left where it is now. Returns whether the work
    /// was done; if not, the thread still waits for the lock, and its return frame brings it back.
    ///
    /// The function may scan the stack that it runs on, as a collector does: it is called on the thread's own only.
    pub fn call_freely(
        &mut self,
        (address, argument): (u64, u64),
        deadline: Instant,
        work: impl Fn() -> Work,
    ) -> Result<bool> {
        if !self.room.own {
            return Err(unknown_stack(self.pid, self.tid));
        }
        self.depart(address, 0, [argument, 0, 0, 0, 0, 0])?;
        let begun = Instant::now();
        let mut signal = 0;
        let mut homecoming = None;
        loop {
            ptrace::resume_to_syscall(self.tid, signal).map_err(|errno| self.explain(errno))?;
            signal = 0;
            let event = loop {
                match ptrace::poll(self.tid)
                    .map_err(|errno| self.explain(errno))?
                    .1
                {
                    Event::Nothing => {
                        // One of them may hold the lock that this thread is waiting for.
                        stop::poll_stragglers();
                        let now = Instant::now();
                        let work = work();
                        let give_up = match work {
                            Work::Waits => deadline,
                            Work::UnderWay => deadline.max(begun + LONG_CALL_PATIENCE),
                            Work::Done => *homecoming.get_or_insert(now + HOMECOMING),
                        };
                        if now > give_up {
                            self.abandon()?;
                            return Ok(work == Work::Done);
                        }
                        let is_soon = begun.elapsed() < SOON;
                        std::thread::sleep(if is_soon { LOOK } else { LATER_LOOK });
                    }
                    event => break event,
                }
            };
            match event {
                Event::Syscall => {
                    let now = ptrace::registers(self.tid).map_err(|errno| self.explain(errno))?;
                    if now.orig_rax == libc::SYS_rt_sigreturn as u64 && now.rsp == self.at.frame {
                        self.park(now, Instant::now() + CALL_PATIENCE)?;
                        return Ok(true);
                    }
                }
                Event::Signal(caught) => signal = caught,
                event => signal = self.unexpected(event)?,
            }
        }
    }

    /// Stops a thread that has not come back and leaves it to itself: its return frame brings it back, or an exception has
    /// taken it past that frame.
    fn abandon(&mut self) -> Result<()> {
        self.away = false;
        self.catch()
    }

    /// Has a running thread stand in an interrupt stop.
    pub(super) fn catch(&mut self) -> Result<()> {
        ptrace::interrupt(self.tid).map_err(|errno| self.explain(errno))?;
        let deadline = Instant::now() + CALL_PATIENCE;
        loop {
            match self.wait(deadline)? {
                Event::Interrupted(_) => {
                    // It may wait for the lock with a timeout.
                    process::interrupted::repeat_call(self.pid, self.tid);
                    return Ok(());
                }
                // A signal, a child of its that is let go, an end; or it comes out of the call that it was waiting in. Any stop of another
                // kind takes back an interrupt that is pending (`ptrace_stop`, kernel/signal.c).
                event => {
                    let signal = match event {
                        Event::Signal(signal) => signal,
                        event => self.unexpected(event)?,
                    };
                    ptrace::interrupt(self.tid)
                        .and_then(|()| ptrace::resume(self.tid, signal))
                        .map_err(|errno| self.explain(errno))?;
                }
            }
        }
    }
}
