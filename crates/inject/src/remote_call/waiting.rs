//! The wait for a thread that makes a call for us.

use super::{LONG_CALL_PATIENCE, LOOK, RemoteThread};
use process::error::{Afterwards, Error, Result};
use process::guest::ended_thread;
use process::ptrace::{self, Event, Looks};
use process::stop::{self, thread_state};
use std::time::{Duration, Instant};

/// How long nothing happens before it is looked whether the thread has ended.
const A_WHILE: Duration = Duration::from_millis(10);

impl RemoteThread<'_> {
    /// Returns what happens next to it.
    ///
    /// # Errors
    /// [`Error::RemoteTimeout`] if nothing does in time; [`Error::ThreadEnded`] or [`Error::Gone`] if it is a zombie.
    pub(super) fn wait(&self, deadline: Instant) -> Result<Event> {
        let looks = Looks::begin();
        let since = Instant::now();
        loop {
            match ptrace::poll(self.tid)
                .map_err(|errno| self.explain(errno))?
                .1
            {
                Event::Nothing if Instant::now() > deadline && !self.comes_on(deadline) => {
                    return Err(self.timeout());
                }
                // The end of a first thread is told when the others have ended, too.
                Event::Nothing if since.elapsed() > A_WHILE && self.is_zombie() => {
                    // Any other thread's end is told by now, and must be heard: until then an exec of another one waits for it.
                    return match ptrace::poll(self.tid) {
                        Ok((_, event @ (Event::Exited(_) | Event::Killed(_)))) => Ok(event),
                        _ => Err(ended_thread(self.pid, self.tid)),
                    };
                }
                Event::Nothing => {
                    stop::poll_stragglers();
                    looks.pause(self.tid);
                }
                event => return Ok(event),
            }
        }
    }

    fn is_zombie(&self) -> bool {
        matches!(thread_state(self.pid, self.tid), Some('Z' | 'X'))
    }

    fn timeout(&self) -> Error {
        Error::RemoteTimeout {
            pid: self.pid,
            place: stop::place(self.pid, self.tid),
            thread: Afterwards::Unknown,
        }
    }

    /// Whether a late thread only waits for a processor or for the kernel, because on a busy machine any call may take seconds. A thread
    /// that sleeps waits for another thread.
    fn comes_on(&self, deadline: Instant) -> bool {
        std::thread::sleep(LOOK);
        Instant::now() < deadline + LONG_CALL_PATIENCE
            && thread_state(self.pid, self.tid).is_some_and(|state| state != 'S')
    }
}
