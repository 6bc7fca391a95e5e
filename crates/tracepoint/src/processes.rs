//! The processes that a set of programs watches. Used by `watch`, `places`, `switches` and others here.

use crate::kernel::{Kind, Map, Refused};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Processes that can be watched at the same time: entries of the map.
pub const MOST: u32 = 8 << 10;

/// The PID namespace of the machine: `PROC_PID_INIT_INO` (include/linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 0xeffffffc;

/// The processes that are watched.
#[derive(Debug)]
pub struct Processes {
    /// Processes by their ids in lancet's PID namespace; the value is the time since which each is watched.
    pub watched: Map,
    /// Our PID namespace by device and inode, if it is not the first.
    pub namespace: Option<[u64; 2]>,
}

impl Processes {
    /// Makes the map. Nobody is watched yet.
    pub fn new() -> Result<Self, Refused> {
        Ok(Processes {
            watched: Map::new(Kind::Hash, "lancet_watched", 8, 8, MOST)?,
            namespace: own_namespace(),
        })
    }

    /// Watches a process with all its threads from now on, which is the time that is returned.
    ///
    /// # Errors
    /// It is in a PID namespace in which it cannot be found, or there is no room.
    pub fn add(&self, pid: i32) -> Result<u64, Refused> {
        require_seen_from(self.namespace, pid)?;
        let time = now();
        self.watched.put(&key(pid), &time.to_ne_bytes())?;
        Ok(time)
    }

    /// Watches a process no more.
    pub fn remove(&self, pid: i32) {
        self.watched.remove(&key(pid));
    }
}

fn key(pid: i32) -> [u8; 8] {
    (pid as u64).to_ne_bytes()
}

/// Our PID namespace by device and inode, if it is not the first.
pub fn own_namespace() -> Option<[u64; 2]> {
    namespace("self").filter(|[_, inode]| *inode != FIRST_NAMESPACE)
}

/// Refuses a process that programs which run in our namespace do not know by its id there.
pub fn require_seen_from(own: Option<[u64; 2]>, pid: i32) -> Result<(), Refused> {
    let is_elsewhere = |own| namespace(&pid.to_string()).is_some_and(|its| its != own);
    match own.is_some_and(is_elsewhere) {
        true => Err(Refused::Namespace(pid)),
        false => Ok(()),
    }
}

/// The PID namespace of a process, by device and inode.
fn namespace(process: &str) -> Option<[u64; 2]> {
    let of = fs::metadata(format!("/proc/{process}/ns/pid")).ok()?;
    Some([of.dev(), of.ino()])
}

/// The monotonic clock, which the kernel's `bpf_ktime_get_ns` reads too.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live record of ours, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
