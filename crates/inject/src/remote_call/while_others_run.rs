//! Calls a function that waits for the VM's lock, while the other threads run. Used by `doors`, and by
//! `enter::languages::ruby::vm_entry` and `enter::languages::python`.

use super::signals::{SYNCHRONOUS, began_since, has_handler, send_to_thread, ticks_since_boot};
use super::{CALL_PATIENCE, LONG_CALL_PATIENCE, LOOK, RemoteThread, unknown_stack};
use process::asked::Wait;
use process::error::Result;
use process::ptrace::{self, Event};
use process::stop;
use std::time::{Duration, Instant};

/// How long a thread may take from the end of its work to its `rt_sigreturn`.
const HOMECOMING: Duration = Duration::from_secs(5);
/// Time between two checks when the call has lasted for [`SOON`].
const LATER_LOOK: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_millis(20);

/// How far the work is for which a thread was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The thread has not begun: it waits for the VM's lock.
    Waits,
    /// It has the lock.
    UnderWay,
    /// It is done.
    Done,
}

impl RemoteThread<'_> {
    /// Calls the function at `address` like [`call`](Self::call), but lets the guest's other threads run and the thread keep its own signal
    /// mask, because the function waits for the VM's lock and may start threads and processes, which inherit the mask. Where the
    /// handlers of signals would run within the call, a signal with a handler is put off until the thread is back; others are delivered. The call is waited for until `deadline`, and longer once its work has begun, but not for long when we are asked to end. When the work is done
    /// the thread soon returns; if it does not, an exception has taken it elsewhere, and it is left where it is. Returns whether the work
    /// was done; if not, the thread still waits for the lock, and its return frame brings it back.
    ///
    /// The function may scan the stack that it runs on, as a collector does, so it is called only on the thread's own stack.
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
        // An earlier call has left another one.
        ptrace::set_signal_mask(self.tid, self.saved_mask).map_err(|errno| self.explain(errno))?;
        let begun = Instant::now();
        let mut wait = Wait::begin();
        let since = ticks_since_boot();
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
                        // A straggler may hold the lock that this thread waits for.
                        stop::poll_stragglers();
                        let now = Instant::now();
                        let work = work();
                        let give_up = match work {
                            Work::Waits => deadline,
                            Work::UnderWay => deadline.max(begun + LONG_CALL_PATIENCE),
                            Work::Done => *homecoming.get_or_insert(now + HOMECOMING),
                        };
                        if now > give_up || wait.is_over() {
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
                Event::Signal(caught) => {
                    signal = self.put_off(caught, since)?;
                }
                event => signal = self.unexpected(event)?,
            }
        }
    }

    /// Blocks a signal for which the program has a handler, before it is delivered: the handler would run within our call, and its
    /// exception be raised there, and the system call that the thread was taken from would not be interrupted by it. The kernel puts a
    /// signal back into the queue that has been blocked since (`ptrace_signal`, kernel/signal.c), and delivers it when the thread has its
    /// own mask again, whether we restore that or its return frame does. Another thread would take a signal to the process from there, and
    /// the call of this one would sleep on, so where there are others it is sent to this thread instead. The end of a child that was begun
    /// by the call itself is told at once: nobody else waits for it. Returns the signal with which the thread goes on (0 = none).
    fn put_off(&self, signal: i32, since: u64) -> Result<i32> {
        let is_fault = SYNCHRONOUS.contains(&signal)
            && ptrace::signal_information(self.tid).is_ok_and(|sent| sent.si_code > libc::SI_USER);
        let sent = ptrace::signal_information(self.tid);
        let is_of_its_child =
            signal == libc::SIGCHLD && sent.is_ok_and(|sent| began_since(&sent, since));
        if !self.puts_off || is_fault || is_of_its_child || !has_handler(self.pid, signal) {
            return Ok(signal);
        }
        let mask = ptrace::signal_mask(self.tid).map_err(|errno| self.explain(errno))?;
        ptrace::set_signal_mask(self.tid, mask | 1 << (signal - 1))
            .map_err(|errno| self.explain(errno))?;
        let is_alone = stop::thread_ids(self.pid)?.len() == 1;
        // First it is sent, and then dropped, so that it is not lost if lancet dies in between.
        if !is_alone && sent.is_ok_and(|sent| send_to_thread(self.pid, self.tid, sent)) {
            return Ok(0);
        }
        Ok(signal)
    }

    /// Stops a thread that has not returned and leaves it: its return frame brings it back, or an exception has taken it past that frame.
    fn abandon(&mut self) -> Result<()> {
        self.away = false;
        self.catch()
    }

    /// Brings a running thread into an interrupt stop.
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
                // A signal, a child of it that is let go, an end; or it returns from the call that it waited in. Any stop of another kind
                // cancels a pending interrupt (`ptrace_stop`, kernel/signal.c).
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
