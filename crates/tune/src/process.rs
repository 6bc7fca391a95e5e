//! The settings of a running process: its descriptor limit and the CPUs of its threads. Used by `setting` and
//! `events::connector`.
//!
//! Source: prlimit(2), sched_setaffinity(2).

use std::collections::HashSet;
use std::io;

use crate::cpus::{Cpus, list};
use crate::guest::started;
use crate::tree::{Cannot, Tree};

/// How many times threads are listed to find those that were born meanwhile. The kernel binds to fewer CPUs than were asked
/// for where a cpuset has fewer; then each new thread looks as if it had not been bound, and a program that makes them
/// all the time would keep us for ever.
const ROUNDS: usize = 100;

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

/// Binds all threads of a process by `bind`, and those that are born meanwhile: a thread begins with the CPUs of the one
/// that made it, which may not have been bound yet. A thread that ends meanwhile needs nothing.
pub(crate) fn bind_all(
    tree: &Tree,
    pid: i32,
    to: &Cpus,
    mut bind: impl FnMut(i32, &Cpus) -> Result<(), Cannot>,
) -> Result<(), Cannot> {
    let mut bound = HashSet::new();
    for _ in 0..ROUNDS {
        let mut is_any_new = false;
        for thread in threads(tree, pid)? {
            let is_new = !bound.contains(&thread)
                && allowed_of(tree, pid, thread)?
                    .is_some_and(|now| list(&now).as_ref() != Some(to));
            if !is_new {
                continue;
            }
            is_any_new = true;
            bound.insert(thread);
            match bind(thread, to) {
                Err(cannot) if !cannot.is_missing() => return Err(cannot),
                _ => {}
            }
        }
        if !is_any_new {
            break;
        }
    }
    Ok(())
}

fn threads(tree: &Tree, pid: i32) -> Result<Vec<i32>, Cannot> {
    let names = tree.list(&format!("/proc/{pid}/task"))?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Returns the CPUs that a thread may run on; `None` of one that has ended.
fn allowed_of(tree: &Tree, pid: i32, thread: i32) -> Result<Option<String>, Cannot> {
    let path = format!("/proc/{pid}/task/{thread}/status");
    let status = match tree.read(&path) {
        Err(cannot) if cannot.is_missing() => return Ok(None),
        read => read?,
    };
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.ok_or_else(|| Cannot::odd(&path, &status))?;
    Ok(Some(list.trim().to_owned()))
}

/// Returns the CPUs that its threads may run on; [`Cannot::Missing`] says that the process is gone, and not one of its threads. Where
/// each thread has its own there is no one value to save, so that is refused.
pub(crate) fn allowed(tree: &Tree, pid: i32) -> Result<String, Cannot> {
    let mut common: Option<String> = None;
    for thread in threads(tree, pid)? {
        let Some(list) = allowed_of(tree, pid, thread)? else {
            continue;
        };
        match &common {
            Some(other) if *other != list => {
                return Err(Cannot::Unsupported {
                    what: format!("moving process {pid}"),
                    why: "its threads are bound each to CPUs of their own".into(),
                });
            }
            _ => common = Some(list),
        }
    }
    common.ok_or_else(|| Cannot::Missing(format!("/proc/{pid}/task")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lancet-process-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Scratch(path)
        }

        /// A thread that may run on these CPUs; with `None` it has ended since the folder was listed.
        fn thread(&self, tid: i32, cpus: Option<&str>) {
            let folder = self.0.join(format!("proc/7/task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            if let Some(cpus) = cpus {
                write(&folder, cpus);
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(folder: &Path, cpus: &str) {
        fs::write(
            folder.join("status"),
            format!("Cpus_allowed_list:\t{cpus}\n"),
        )
        .unwrap();
    }

    #[test]
    fn a_thread_that_ends_is_not_the_process_that_ends() {
        let scratch = Scratch::new("ended");
        for (tid, cpus) in [(7, Some("0-3")), (8, None), (9, Some("0-3"))] {
            scratch.thread(tid, cpus);
        }
        let tree = Tree::below(&scratch.0).unwrap();
        assert_eq!(allowed(&tree, 7).unwrap(), "0-3");
        assert!(allowed(&tree, 6).unwrap_err().is_missing());
        scratch.thread(9, Some("2"));
        assert!(!allowed(&tree, 7).unwrap_err().is_missing());
    }

    /// The second of three ends before it is bound, and the third has made a fourth before it is.
    #[test]
    fn threads_that_come_and_go_are_bound() {
        let scratch = Scratch::new("bound");
        for tid in 7..10 {
            scratch.thread(tid, Some("0-3"));
        }
        let tree = Tree::below(&scratch.0).unwrap();
        let mut asked = Vec::new();
        let wanted = list("1").unwrap();
        bind_all(&tree, 7, &wanted, |thread, _| {
            asked.push(thread);
            match thread {
                8 => {
                    fs::remove_dir_all(scratch.0.join("proc/7/task/8")).unwrap();
                    return Err(Cannot::Missing("sched_setaffinity".into()));
                }
                9 => scratch.thread(10, Some("0-3")),
                _ => {}
            }
            scratch.thread(thread, Some("1"));
            Ok(())
        })
        .unwrap();
        assert_eq!(asked, [7, 8, 9, 10]);
        assert_eq!(allowed(&tree, 7).unwrap(), "1");
        let denied = bind_all(&tree, 7, &list("0").unwrap(), |_, _| {
            Err(Cannot::NeedsLive("a thread"))
        });
        assert_eq!(denied, Err(Cannot::NeedsLive("a thread")));
    }
}
