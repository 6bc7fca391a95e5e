//! Which ids the threads of a process have with us: one in another PID namespace calls itself by others (pid_namespaces(7)).
//!
//! What a thread says of itself in its ring, and in notices, are the ids of its own namespace, because it asks the kernel. `NSpid` in
//! `/proc/PID/task/TID/status` has the ids of a thread in each namespace, from ours inwards.
//!
//! `process::pid_namespace::Translator` answers for every id that a process may name, and asks all processes of the machine for it. Here only the process's own
//! threads and children are in question, they are asked for each new ring and notice, and an answer stays when its thread has ended.

use process::guest::{children, pid_namespace};
use process::pid_namespace::ids_of_thread;
use process::stop::thread_ids;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The threads of a process, and its children, which may speak in the ring of a thread (vfork).
#[derive(Debug)]
pub(crate) struct Ids {
    pid: i32,
    /// It is in another namespace than we are.
    elsewhere: bool,
    /// Ids with us, by those with it. Of one that has ended it stays until another has the same.
    known: HashMap<u32, i32>,
    /// When they were all asked for last, and how long that took.
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

    /// The id with us of what calls itself `own`. Of one that has ended before it was asked for, nobody knows it: then it is the
    /// one that was found last, or else its own.
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

    /// The id with us that was found last.
    pub(crate) fn last(&self, own: u32) -> Option<i32> {
        self.known.get(&own).copied()
    }

    /// Asks for all that are there. A process may say as many ids as it likes, so that takes at most half of our time.
    fn look(&mut self) {
        let began = Instant::now();
        if let Some((last, took)) = self.looked
            && began.duration_since(last) < took * 2
        {
            return;
        }
        // Those that have ended are of use as long as what they told may be unread.
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

/// Ids that are remembered when all are asked for anew.
const MOST: usize = 1 << 16;

/// Whether a thread, or a child, calls itself `own`.
fn is_called(pid: i32, here: i32, own: u32) -> bool {
    [pid, here]
        .into_iter()
        .any(|process| id_within(process, here) == Some(own))
}

/// Whether a process is in our PID namespace.
pub(crate) fn shares_our_ids(pid: i32) -> bool {
    pid_namespace(pid) == pid_namespace(std::process::id() as i32)
}

/// The thread of a process in another PID namespace that calls itself `own`.
pub(crate) fn thread_here(pid: i32, own: u32) -> Option<i32> {
    let mut threads = thread_ids(pid).unwrap_or_default().into_iter();
    threads.find(|here| id_within(pid, *here) == Some(own))
}

/// The child of a process that calls itself `own`.
pub(crate) fn child_here(pid: i32, own: u32) -> Option<i32> {
    let mut children = children(pid).into_iter();
    children.find(|here| id_within(*here, *here) == Some(own))
}

/// The id that a thread has in its own PID namespace; the one here, if it cannot be found.
pub(crate) fn own_id(pid: i32, tid: i32) -> u32 {
    id_within(pid, tid).unwrap_or(tid as u32)
}

/// The id that a thread has in its own PID namespace: the last of `NSpid`.
fn id_within(pid: i32, tid: i32) -> Option<u32> {
    let own = *ids_of_thread(pid, tid)?.last()?;
    u32::try_from(own).ok()
}
