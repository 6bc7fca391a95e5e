//! Handles processes that the kernel has made our children or tracees and that no other code here knows. Used by
//! `processes`.
//!
//! A process that a guest makes with `CLONE_PARENT` is a child of the guest's parent, which is lancet if it has started the guest;
//! one that it makes with `CLONE_PTRACE` is traced by the guest's tracer (clone(2)). The first stays a zombie until lancet waits for
//! it, and a program that waits for its end would wait for ever; the second stands still at its first instruction. The first is
//! waited for here, and the second is let go.
//! the other let go.

use process::proc_file;
use process::ptrace::{self, Event};
use process::status_file::StatusFile;
use std::time::{Duration, Instant};

/// Events of known processes are taken by the code that knows them, much sooner than this.
const PATIENCE: Duration = Duration::from_millis(200);

/// Finds such processes, and waits for their end or lets them go.
#[derive(Default)]
pub struct Strangers {
    /// The process or thread with an event that is not taken yet, and since when.
    unheard: Option<(i32, Instant)>,
    /// When the list of our children was last read.
    listed: Option<Instant>,
}

impl Strangers {
    /// Checks once, without waiting; `is_known` returns whether an id belongs to a process that other code here handles.
    pub fn look(&mut self, is_known: impl Fn(i32) -> bool) {
        let unheard = ptrace::unheard();
        // A tracee of ours may be a thread of a known process.
        let is_ours = |id: &i32| is_known(*id) || group_of(*id).is_none_or(&is_known);
        let stranger = unheard.filter(|id| !is_ours(id));
        // A known process with events all the time would hide all others, because the kernel reports one at a time; so the list of
        // children is read too.
        let due = self.listed.is_none_or(|at| at.elapsed() >= PATIENCE);
        if stranger.is_none() && unheard.is_some() && due {
            self.listed = Some(Instant::now());
            let mut others = children().into_iter().filter(|id| !is_ours(id));
            if let Some(other) = others.find(|id| ptrace::is_unheard(*id)) {
                return let_go(other);
            }
        }
        let Some(pid) = stranger else {
            self.unheard = None;
            return;
        };
        match self.unheard {
            Some((known, since)) if known == pid => {
                if since.elapsed() >= PATIENCE {
                    self.unheard = None;
                    let_go(pid);
                }
            }
            _ => self.unheard = Some((pid, Instant::now())),
        }
    }
}

/// Returns the children of this thread of ours (Linux 3.5 with CONFIG_PROC_CHILDREN; otherwise none).
fn children() -> Vec<i32> {
    let list = proc_file::text("/proc/thread-self/children").unwrap_or_default();
    let ids = list.split_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// Returns the process that a thread belongs to.
fn group_of(tid: i32) -> Option<i32> {
    StatusFile::of_first_thread(tid).ok()?.number("Tgid")
}

fn let_go(pid: i32) {
    let signal = match ptrace::poll(pid) {
        Ok((_, Event::Signal(signal))) => signal,
        Ok((_, Event::Interrupted(_) | Event::Special(_) | Event::Syscall)) => 0,
        // The process has ended, or other code has waited for it.
        _ => return,
    };
    // An error means that the process is gone.
    let _ = ptrace::detach(pid, signal);
}
