//! A thread that is seized before its exec, so that it stands still at the first instruction of the next program. Used
//! by `execs`, and by `hooks::notices`.
//!
//! No other thread of its process is traced. In a process with several threads the kernel ends the others and gives
//! the thread the process's own id (`de_thread` in `fs/exec.c`), so the exec is reported under that id.

use crate::tracee::Tracee;
use process::error::Result;
use process::ptrace::{self, Event};
use process::stop;

/// A thread that we trace because it is about to call `execve`; it runs until its exec.
#[derive(Debug)]
pub struct Seized {
    pid: i32,
    tid: i32,
}

/// What has become of a seized thread.
#[derive(Debug)]
pub enum Became {
    /// It has not come to its exec yet.
    Going,
    /// It stands at its exec: the new program is loaded, and none of it has run.
    There(Tracee),
    /// It has ended, or is no longer traced by us.
    Gone,
}

impl Seized {
    /// Seizes thread `tid` of process `pid`, which waits for us.
    pub fn seize(pid: i32, tid: i32) -> Result<Self> {
        ptrace::seize(tid, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC)
            .map_err(|errno| ptrace::explain(pid, "following an exec", errno))?;
        Ok(Seized { pid, tid })
    }

    /// Id of its process, which its exec does not change.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Id of the thread before its exec, which gives it the id of its process.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Handles what the kernel reports of the thread, without waiting, and returns how far it is.
    pub fn poll(&self) -> Became {
        let mut ours = false;
        for id in [self.tid, self.pid] {
            loop {
                match ptrace::poll(id) {
                    // It is no thread of ours: not yet, or no longer.
                    Err(_) => break,
                    Ok((_, Event::Nothing)) => {
                        ours = true;
                        break;
                    }
                    Ok((_, Event::Special(libc::PTRACE_EVENT_EXEC))) => {
                        return Became::There(Tracee::at_exec(self.pid));
                    }
                    Ok((_, Event::Exited(_) | Event::Killed(_))) => return Became::Gone,
                    Ok((_, event)) => go_on(id, event),
                }
            }
        }
        if ours { Became::Going } else { Became::Gone }
    }

    /// Lets the thread go, because its exec has failed.
    pub fn let_go(self) {
        // An error means that the thread is gone.
        let _ = stop::let_go(self.pid, self.tid);
    }
}

fn go_on(id: i32, event: Event) {
    // An error means that the process is gone.
    let _ = match event {
        Event::Signal(signal) => ptrace::resume(id, signal),
        Event::Interrupted(signal) if signal != libc::SIGTRAP => ptrace::listen(id),
        _ => ptrace::resume(id, 0),
    };
}
