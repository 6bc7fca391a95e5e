//! The ids in our PID namespace of a process's threads: a process in another PID namespace knows them by other ids (pid_namespaces(7)).
//! Used by `notices`, `open`, `open::adopt` and others.
//!
//! The ids that a thread writes to its ring and into notices are those of its own namespace, because it asks the kernel for them. `NSpid`
//! in `/proc/PID/task/TID/status` lists the ids of a thread in each namespace, from ours inwards.
//!
//! `process::pid_namespace::Translator` answers for any id and reads the status of every process of the machine for it. Here only the
//! process's own threads and children matter; they are looked up for each new ring and notice, and an id stays known when its thread has
//! ended.

use process::guest::{children, pid_namespace};
use process::pid_namespace::ids_of_thread;
use process::stop::thread_ids;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The threads of a process, and its children, which may write to the ring of a parent's thread (vfork).
#[derive(Debug)]
pub(crate) struct Ids {
    pid: i32,
    /// Whether the process is in another PID namespace than we are.
    elsewhere: bool,
    /// Ids in our namespace, by the ids in the process's. The id of an ended thread stays until another thread has the same.
    known: HashMap<u32, i32>,
    /// When all ids were last looked up, and how long that took.
    looked: Option<(Instant, Duration)>,
}

impl Ids {
    pub(crate) fn of(pid: i32) -> Self {
        Ids {
            pid,
            elsewhere: !shares_our_ids(pid),
            known: HashMap::new(),
            looked: None,
        }
    }

    /// Returns the id in our namespace of the thread that knows itself as `own_hooks`. A thread that ended before it was looked up is unknown:
    /// then the id that was found last is returned, or else `own_hooks`.
    pub(crate) fn here(&mut self, own: u32) -> u32 {
        if !self.elsewhere {
            return own;
        }
        let is_so = |here| is_called(self.pid, here, own);
        if !self.last(own).is_some_and(is_so) {
            self.look();
        }
        self.last(own).map_or(own, |here| here as u32)
    }

    /// Returns the id in our namespace that was last found for `own_hooks`.
    pub(crate) fn last(&self, own: u32) -> Option<i32> {
        self.known.get(&own).copied()
    }

    /// Looks up all threads and children. The guest decides how many unknown ids it writes, so at most half of our time is spent on it.
    fn look(&mut self) {
        let began = Instant::now();
        if let Some((last, took)) = self.looked
            && began.duration_since(last) < took * 2
        {
            return;
        }
        // Ids of ended threads are kept as long as possible, because records of them may be unread.
        if self.known.len() > MOST {
            self.known.clear();
        }
        let threads = thread_ids(self.pid).unwrap_or_default().into_iter();
        let threads = threads.map(|tid| (own_id(self.pid, tid), tid));
        let children = children(self.pid).into_iter();
        let children = children.map(|child| (own_id(child, child), child));
        self.known.extend(children.chain(threads));
        self.looked = Some((began, began.elapsed()));
    }
}

/// Number of remembered ids above which all are looked up anew.
const MOST: usize = 1 << 16;

/// Whether a thread or a child has the id `own_hooks` in its own PID namespace.
fn is_called(pid: i32, here: i32, own: u32) -> bool {
    [pid, here]
        .into_iter()
        .any(|process| id_within(process, here) == Some(own))
}

/// Whether a process is in our PID namespace.
pub(crate) fn shares_our_ids(pid: i32) -> bool {
    pid_namespace(pid) == pid_namespace(std::process::id() as i32)
}

/// Finds the thread of a process in another PID namespace by its id there.
pub(crate) fn thread_here(pid: i32, own: u32) -> Option<i32> {
    let mut threads = thread_ids(pid).unwrap_or_default().into_iter();
    threads.find(|here| id_within(pid, *here) == Some(own))
}

/// Finds the child of a process by its id in the process's PID namespace.
pub(crate) fn child_here(pid: i32, own: u32) -> Option<i32> {
    let mut children = children(pid).into_iter();
    children.find(|here| id_within(*here, *here) == Some(own))
}

/// Returns the id of a thread in its own PID namespace, or the id here if that cannot be read.
pub(crate) fn own_id(pid: i32, tid: i32) -> u32 {
    id_within(pid, tid).unwrap_or(tid as u32)
}

/// Returns the id of a thread in its own PID namespace: the last of `NSpid`.
fn id_within(pid: i32, tid: i32) -> Option<u32> {
    let own = *ids_of_thread(pid, tid)?.last()?;
    u32::try_from(own).ok()
}
