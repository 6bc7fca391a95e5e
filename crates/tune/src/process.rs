//! The settings of a running process: its descriptor limit and the CPUs of its threads.
//!
//! Source: prlimit(2), sched_setaffinity(2).

use std::io;

use crate::cpus::Cpus;
use crate::guest::started;
use crate::tree::{Cannot, Tree};

/// Returns an error if the id now names a later process.
pub(crate) fn same_process(tree: &Tree, pid: i32, then: u64) -> Result<(), Cannot> {
    match started(tree, pid)? {
        now if now == then => Ok(()),
        _ => Err(Cannot::Missing(format!(
            "process {pid} that was meant (a later one has its number)"
        ))),
    }
}

/// Returns the limits of descriptors; with a number, after setting the soft one.
pub(crate) fn limit(pid: i32, soft: Option<u64>) -> Result<libc::rlimit64, Cannot> {
    let failed = || Cannot::from_io("prlimit", &io::Error::last_os_error());
    let mut now = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit lives across the call; nothing new is given.
    if unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut now) } < 0 {
        return Err(failed());
    }
    if let Some(soft) = soft {
        let new = libc::rlimit64 {
            rlim_cur: soft,
            rlim_max: now.rlim_max,
        };
        // SAFETY: the limit lives across the call; the old one is not asked for.
        if unsafe {
            libc::prlimit64(
                pid,
                libc::RLIMIT_NOFILE,
                &raw const new,
                std::ptr::null_mut(),
            )
        } < 0
        {
            return Err(failed());
        }
    }
    Ok(now)
}

/// Binds a thread (0 is this one) to CPUs.
pub(crate) fn bind(thread: i32, to: &Cpus) -> Result<(), Cannot> {
    let mut bits = vec![0u64; to.last().map_or(1, |last| last / 64 + 1)];
    for cpu in to {
        bits[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the mask lives across the call, and its size in bytes is given.
    match unsafe { libc::sched_setaffinity(thread, bits.len() * 8, bits.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(Cannot::from_io(
            "sched_setaffinity",
            &io::Error::last_os_error(),
        )),
    }
}

/// Returns the CPUs that its threads may run on. Where each thread has its own there is no one value to save, so that
/// is refused.
pub(crate) fn allowed(tree: &Tree, pid: i32) -> Result<String, Cannot> {
    let mut common: Option<String> = None;
    for thread in tree.list(&format!("/proc/{pid}/task"))? {
        let path = format!("/proc/{pid}/task/{thread}/status");
        let status = tree.read(&path)?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .ok_or_else(|| Cannot::odd(&path, &status))?
            .trim();
        match &common {
            Some(other) if other != list => {
                return Err(Cannot::Unsupported {
                    what: format!("moving process {pid}"),
                    why: "its threads are bound each to CPUs of their own".into(),
                });
            }
            _ => common = Some(list.to_owned()),
        }
    }
    common.ok_or_else(|| Cannot::Missing(format!("/proc/{pid}/task")))
}
