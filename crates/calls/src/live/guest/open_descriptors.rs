//! The descriptors that a process has, as the kernel lists them (`/proc/PID/fd`). Used by `descriptors`, `opening`,
//! `peers` and others.

pub(super) use crate::descriptors::numbers;

use crate::descriptors::Held;
use process::wait::Waits;
use std::collections::BTreeMap;
use vm::Memory;

/// Limit of the descriptors of one process that are described; the others are only listed.
const NAMED: usize = 4096;

/// Returns what a process has when it is opened.
pub(super) fn before(pid: i32) -> Held {
    Held {
        before: numbers(pid).unwrap_or_default(),
        limit: limit(pid),
        ..Held::default()
    }
}

/// Returns what it has when it is left, with a description of each; `None` if it is gone, or if they cannot be listed any more.
pub(super) fn after(pid: i32, memory: &dyn Memory) -> Option<BTreeMap<u32, String>> {
    let mut waits = Waits::of(pid, memory);
    let numbers = numbers(pid).ok()?.into_iter().enumerate();
    let named = numbers.map(|(at, fd)| {
        let what = if at < NAMED {
            waits.descriptor(fd.into())
        } else {
            String::new()
        };
        (fd, what)
    });
    Some(named.collect())
}

/// Returns the soft limit, from the line `Max open files  SOFT  HARD  files` (fs/proc/base.c,
/// `proc_pid_limits`).
fn limit(pid: i32) -> Option<u64> {
    let text = process::proc_file::of_process(pid, "limits").ok()?;
    process::limits::soft(&text, "Max open files")?.parse().ok()
}
