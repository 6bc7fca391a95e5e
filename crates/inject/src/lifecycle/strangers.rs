//! Processes that the kernel has made ours and that nobody here knows.
//!
//! What a guest makes with `CLONE_PARENT` is a child of the guest's parent, and that is us if we have started the guest; what it
//! makes with `CLONE_PTRACE` is traced by the guest's tracer (clone(2)). The first stays a zombie until we wait for it, and who waits
//! for it to be gone waits for ever; the second stands still at its first instruction. The end of the one is taken here, and
//! the other let go.

use process::proc_file;
use process::ptrace::{self, Event};
use process::status_file::StatusFile;
use std::time::{Duration, Instant};

/// What happens to a process that is known is taken by whoever knows it, much sooner.
const PATIENCE: Duration = Duration::from_millis(200);

/// Finds such processes, and takes the end of one or lets the other go.
#[derive(Default)]
pub struct Strangers {
    /// Of whom there is something to hear, and since when nobody has asked.
    unheard: Option<(i32, Instant)>,
    /// When the list of our children was read.
    listed: Option<Instant>,
}

impl Strangers {
    /// Looks once, without waiting; `is_known` says of an id whether it is a process's that somebody here asks about.
    pub fn look(&mut self, is_known: impl Fn(i32) -> bool) {
        let unheard = ptrace::unheard();
        // What we trace of a process that is known may be a thread of it.
        let is_ours = |id: &i32| is_known(*id) || group_of(*id).is_none_or(&is_known);
        let stranger = unheard.filter(|id| !is_ours(id));
        // One that is known and never pauses is heard of again and again, and the kernel tells of no other then.
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

/// The children of this thread of ours (Linux 3.5 with CONFIG_PROC_CHILDREN; none without).
fn children() -> Vec<i32> {
    let list = proc_file::text("/proc/thread-self/children").unwrap_or_default();
    let ids = list.split_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// The process that a thread is of.
fn group_of(tid: i32) -> Option<i32> {
    StatusFile::of(tid).ok()?.number("Tgid")
}

fn let_go(pid: i32) {
    let signal = match ptrace::poll(pid) {
        Ok((_, Event::Signal(signal))) => signal,
        Ok((_, Event::Interrupted(_) | Event::Special(_) | Event::Syscall)) => 0,
        // It has ended, or somebody else has asked.
        _ => return,
    };
    // An error means that it is gone.
    let _ = ptrace::detach(pid, signal);
}
