//! Which threads a process has, and whether any of them goes on, by the files of `/proc`. A process has ended when none does.
//! Used by `guest`, `error` and others here, and by the crates `hooks`, `inject`, `enter` and `frames`.

use crate::error::{Error, Result};
use crate::proc_file;

/// Returns the ids in `/proc/PID/task`.
pub fn thread_ids(pid: i32) -> Result<Vec<i32>> {
    let entries = proc_file::folder_of(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|error| Error::of_proc(pid, "task", error))?;
    Ok(proc_file::numbers_in(entries).collect())
}

/// Returns a thread of a process that goes on: its first one if that does. `None` = all of them have ended, or the kernel is ending them, so no
/// code of the process runs any more. What the first thread does says nothing of the others: `pthread_exit` in `main` ends it alone.
///
/// # Errors
/// The list of its threads cannot be read.
pub fn living_thread(pid: i32) -> Result<Option<i32>> {
    /// A thread may end, and have made another one, while the list is read.
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        let all = match thread_ids(pid) {
            Ok(all) => all,
            Err(error) if error.is_end() => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(tid) = all.into_iter().find(|tid| !is_ending(pid, *tid)) {
            return Ok(Some(tid));
        }
    }
    Ok(None)
}

/// Whether a thread is in `do_exit`, by the text of its `stat`; `None` = that does not say it.
pub(crate) fn exits(stat: &str) -> Option<bool> {
    /// `PF_EXITING` (include/linux/sched.h), in the field `flags` of proc_pid_stat(5).
    const EXITING: u64 = 0x4;
    const FLAGS: usize = 9;
    let flags: u64 = proc_file::stat_field(stat, FLAGS)?.parse().ok()?;
    Some(flags & EXITING != 0)
}

/// Whether a thread has ended, or the kernel is ending it: it is in `do_exit`, or has SIGKILL, which nothing can put off, or the process's
/// core is being written.
fn is_ending(pid: i32, tid: i32) -> bool {
    let stat = match proc_file::of_thread(pid, tid, "stat") {
        Ok(stat) => stat,
        Err(error) => return proc_file::is_gone(&error),
    };
    let is_dead = matches!(proc_file::stat_field(&stat, 3), Some("Z" | "X"));
    if is_dead || exits(&stat) == Some(true) {
        return true;
    }
    let status = match proc_file::of_thread(pid, tid, "status") {
        Ok(status) => status,
        Err(error) => return proc_file::is_gone(&error),
    };
    status.lines().any(|line| match line.split_once(":\t") {
        Some(("SigPnd" | "ShdPnd", pending)) => u64::from_str_radix(pending, 16)
            .is_ok_and(|pending| pending & 1 << (libc::SIGKILL - 1) != 0),
        Some(("CoreDumping", writes)) => writes == "1",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::{Status, missing_thread};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// The first thread ends by itself (SYS_exit), and another one goes on until the process is killed.
    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        let script = "import ctypes, threading
def waits():
    print(threading.get_native_id(), flush=True)
    threading.Event().wait()
threading.Thread(target=waits).start()
ctypes.CDLL(None).syscall(60, 0)";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let pid = child.id() as i32;
        let before = Status::read(pid).expect("it lives");
        let mut told = BufReader::new(child.stdout.take().expect("piped")).lines();
        let other: i32 = told
            .next()
            .expect("a line")
            .expect("text")
            .parse()
            .expect("an id");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let now = loop {
            let now = Status::read(pid).expect("it lives");
            if now.first_has_ended() {
                break now;
            }
            assert!(std::time::Instant::now() < until, "its first thread ends");
            std::thread::yield_now();
        };
        assert_eq!(living_thread(pid).expect("a list"), Some(other));
        assert!(!now.has_ended() && !before.is_gone());
        assert!(matches!(missing_thread(pid), Error::Stirred(_)));
        child.kill().expect("it is killed");
        child.wait().expect("our child");
        assert_eq!(living_thread(pid).expect("a list"), None);
        assert!(before.is_gone());
        assert!(matches!(missing_thread(pid), Error::Gone(_)));
    }
}
