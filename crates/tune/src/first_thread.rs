//! A process whose first thread has ended while others run on (`pthread_exit` in `main`). Used by `guest`, `mounts`,
//! `net::borrowed` and others.
//!
//! `/proc/PID` is the folder of that thread, which has no memory, no descriptors and no namespaces any more (`exit_mm`, `exit_files`,
//! kernel/exit.c). The folder of a thread that lives shows what all of them share.

use std::io;
use std::os::fd::OwnedFd;

use crate::descriptor::owned;
use crate::guest::field;
use crate::tree::Tree;

/// Returns the first thread of a process that lives, if its very first one has ended.
pub(crate) fn beside_ended(tree: &Tree, pid: i32) -> Option<i32> {
    let state = |tid: &str| {
        let stat = tree.read(&format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        field(&stat, 3)?.chars().next()
    };
    let has_ended = |state: Option<char>| matches!(state, None | Some('Z' | 'X' | 'x'));
    if !has_ended(state(&pid.to_string())) {
        return None;
    }
    let threads = tree.list(&format!("/proc/{pid}/task")).ok()?;
    let living = threads.iter().find(|tid| !has_ended(state(tid)))?;
    living.parse().ok()
}

/// Returns the folder of /proc that shows what all threads of a process share.
pub(crate) fn folder(tree: &Tree, pid: i32) -> String {
    match beside_ended(tree, pid) {
        Some(tid) => format!("/proc/{pid}/task/{tid}"),
        None => format!("/proc/{pid}"),
    }
}

/// Opens a process of this machine, so that its descriptors can be duplicated (pidfd_open(2)). With its first thread they are gone;
/// since Linux 6.9 the kernel lets another thread be named.
pub(crate) fn holder_of_descriptors(pid: i32) -> io::Result<OwnedFd> {
    /// `PIDFD_THREAD` (include/uapi/linux/pidfd.h).
    const THREAD: libc::c_int = libc::O_EXCL;
    let (id, flags) = match beside_ended(&Tree::live(), pid) {
        Some(tid) => (tid, THREAD),
        None => (pid, 0),
    };
    // SAFETY: no memory is handed over; the call makes the descriptor.
    unsafe { owned(libc::syscall(libc::SYS_pidfd_open, id, flags)) }
}
