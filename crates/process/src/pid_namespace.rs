//! Translates ids of processes between PID namespaces (pid_namespaces(7)): which process of ours is 12 to a process in a container?
//! Used by `snapshot` and `wait::others`, and by most crates above.
//!
//! `/proc/PID/status` has the ids of a process in each namespace from that of the mounted `/proc` inwards (`NSpid`, `NStgid`, `NSpgid`,
//! `NSsid`, Linux 4.1: fs/proc/array.c); `/proc/PID/ns/pid` is its innermost namespace, and `NS_GET_PARENT` (Linux 4.9, ioctl_ns(2))
//! leads outwards from there until it answers EPERM beyond our own. What a process calls 12 is the process that has this id in
//! the innermost namespace of the first.

use crate::descriptors::open_briefly;
use crate::proc_file;
use crate::status_file::StatusFile;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kind of thing that an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A thread: `NSpid` of `/proc/PID/status`.
    Thread,
    /// A process, which is a group of threads: `NStgid`.
    Process,
    /// A process group: `NSpgid`.
    Group,
    /// A session of process groups: `NSsid`.
    Session,
}

/// `NS_GET_PARENT`, the request for the namespace around one (include/uapi/linux/nsfs.h).
const PARENT: libc::c_ulong = 0xb702;
/// Limit of nested namespaces (`MAX_PID_NS_LEVEL`, include/linux/pid_namespace.h).
const DEEPEST: usize = 32;
/// Limit of the ids that are remembered.
const MOST: usize = 4096;

/// Finds processes by the ids that others know them by.
#[derive(Debug, Default)]
pub struct Translator {
    /// The id here of each thing, by namespace, kind and its id there, as last looked up.
    found: HashMap<(u64, Kind, i32), i32>,
    own: Option<u64>,
}

impl Translator {
    /// Returns the id here of a thread, process, group or session that `process` knows as `number`; `None` = there is none, or it cannot be
    /// found.
    pub fn translate(&mut self, process: i32, number: i32, kind: Kind) -> Option<i32> {
        if number <= 0 {
            return None;
        }
        let from = innermost(&proc_file::path(process, "ns/pid"))?;
        let own = match self.own {
            Some(own) => own,
            None => *self.own.insert(innermost(Path::new("/proc/self/ns/pid"))?),
        };
        if from == own {
            return Some(number);
        }
        let wanted = (from, kind, number);
        let known = self.found.get(&wanted).copied();
        let near = known.into_iter().chain([process]);
        let mut near = near.filter_map(|one| Some((one, ours(one, wanted)?)));
        let (one, ours) = near.next().or_else(|| look_everywhere(wanted))?;
        if self.found.len() >= MOST {
            self.found.clear();
        }
        self.found.insert(wanted, one);
        Some(ours)
    }
}

/// Returns the innermost PID namespace of a process, which this link leads to, by its inode number.
fn innermost(namespace: &Path) -> Option<u64> {
    fs::metadata(namespace).ok().map(|of| of.ino())
}

/// Returns the id here of a process, if it has the wanted id in the wanted namespace.
fn ours(process: i32, (from, kind, number): (u64, Kind, i32)) -> Option<i32> {
    let ids = ids(process, kind)?;
    let mut namespace = open_briefly(proc_file::path(process, "ns/pid")).ok()?;
    let mut ours = None;
    let mut fits = false;
    for id in ids.iter().rev().take(DEEPEST) {
        let inode = namespace.metadata().ok()?.ino();
        ours = Some(*id);
        if inode == from {
            if *id != number {
                return None;
            }
            fits = true;
        }
        // SAFETY: the call takes an open descriptor and a request without an argument; its result is a new descriptor or -1.
        let parent = unsafe { libc::ioctl(namespace.as_raw_fd(), PARENT) };
        if parent < 0 {
            break;
        }
        // SAFETY: the kernel has just made this descriptor for us, and nothing else has it.
        namespace = unsafe { File::from_raw_fd(parent) };
    }
    ours.filter(|_| fits)
}

/// Returns the ids of a process, the one in our namespace first.
fn ids(process: i32, kind: Kind) -> Option<Vec<i32>> {
    let name = match kind {
        Kind::Thread => "NSpid",
        Kind::Process => "NStgid",
        Kind::Group => "NSpgid",
        Kind::Session => "NSsid",
    };
    StatusFile::of_first_thread(process).ok()?.numbers(name)
}

/// Returns the ids of a thread in each namespace that it is in, from ours inwards, so that the last is the one it knows itself by. `None`
/// if it is gone, or the kernel does not show them.
pub fn ids_of_thread(pid: i32, tid: i32) -> Option<Vec<i32>> {
    StatusFile::of_thread(pid, tid).ok()?.numbers("NSpid")
}

/// Examines every process, and every thread if a thread is wanted.
fn look_everywhere(wanted: (u64, Kind, i32)) -> Option<(i32, i32)> {
    let here = |one: i32| Some((one, ours(one, wanted)?));
    proc_file::numbers("/proc").find_map(|process| {
        here(process).or_else(|| match wanted.1 {
            Kind::Thread => proc_file::threads(process).find_map(here),
            _ => None,
        })
    })
}
