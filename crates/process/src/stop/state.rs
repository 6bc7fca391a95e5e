//! The state of each thread of a process, by the files of `/proc`. Used by `late`, `taking` and others here, and by the
//! crates `inject`, `calls`, `enter` and `frames`.
//!
//! A thread is gone only where the kernel says that there is none. A file that cannot be read says nothing of the thread.

use crate::proc_file;
use crate::status_file::StatusFile;
use crate::threads::thread_ids;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Whether a thread has ended; false where that cannot be found out.
pub(super) fn thread_is_dead(pid: i32, tid: i32) -> bool {
    match state_of_thread(pid, tid) {
        Ok(state) => matches!(state, Some('Z' | 'X')),
        Err(error) => proc_file::is_gone(&error),
    }
}

/// Whether a thread is on a processor or waits for one.
pub fn is_running(pid: i32, tid: i32) -> bool {
    thread_state(pid, tid) == Some('R')
}

/// Whether a thread of a process is on a processor or waits for one, as each shows when it is asked; true where that cannot be found out. The
/// kernel's clock of the processor time of another process does not tell that: between two ticks it stands still (`thread_group_cputime`,
/// kernel/sched/cputime.c).
pub fn any_runs(pid: i32) -> bool {
    let runs = |tid: &i32| match state_of_thread(pid, *tid) {
        Ok(state) => state.is_none_or(|letter| letter == 'R'),
        Err(error) => !proc_file::is_gone(&error),
    };
    thread_ids(pid).map_or(true, |tids| tids.iter().any(runs))
}

/// Returns the letter of a thread's state; `None` = it is gone ([`thread_is_gone`]), or cannot be read.
pub fn thread_state(pid: i32, tid: i32) -> Option<char> {
    state_of_thread(pid, tid).ok()?
}

/// Whether there is no such thread of this process any more. A zombie is still there, and so is a thread that cannot be read.
pub fn thread_is_gone(pid: i32, tid: i32) -> bool {
    state_of_thread(pid, tid).is_err_and(|error| proc_file::is_gone(&error))
}

fn state_of_thread(pid: i32, tid: i32) -> io::Result<Option<char>> {
    let stat = proc_file::of_thread(pid, tid, "stat")?;
    Ok(proc_file::stat_field(&stat, 3).and_then(|state| state.chars().next()))
}

/// Describes where a thread is, for a message: its state and what it waits for in the kernel.
pub fn place(pid: i32, tid: i32) -> String {
    let state = match state_of_thread(pid, tid) {
        Ok(Some(state)) => format!("state {state}"),
        Err(error) if proc_file::is_gone(&error) => "gone".into(),
        Ok(None) | Err(_) => "state unknown".into(),
    };
    state + &wait_channel(pid, tid)
}

/// Returns ` (FUNCTION)` of the kernel in which a thread waits; empty where that is not shown.
pub(super) fn wait_channel(pid: i32, tid: i32) -> String {
    match proc_file::of_thread(pid, tid, "wchan") {
        Ok(place) if !place.is_empty() && place != "0" => format!(" ({place})"),
        _ => String::new(),
    }
}

/// Returns how many threads there are, dying ones included: two less than the links of `/proc/PID/task` (`proc_task_getattr`,
/// fs/proc/base.c). If all threads that we hold are alive and there are no more, none is left that could start another one.
/// This takes one system call where reading the list takes five.
pub(super) fn thread_count(pid: i32) -> Option<usize> {
    let links = fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink();
    usize::try_from(links.checked_sub(2)?).ok()
}

/// Returns the process that traces a thread; 0 = none.
pub(super) fn tracer_of(tid: i32) -> i32 {
    let status = StatusFile::of_first_thread(tid).unwrap_or_default();
    status.number("TracerPid").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn another_process_that_spins_runs_each_time_and_one_that_sleeps_does_not() {
        let run = |program: &mut Command| {
            let program = program.stdin(Stdio::piped()).stdout(Stdio::null());
            program.spawn().expect("Debian's own")
        };
        let mut spins = run(Command::new("sh").args(["-c", "while :; do :; done"]));
        let mut sleeps = run(&mut Command::new("cat"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while any_runs(sleeps.id() as i32) {
            assert!(Instant::now() < deadline, "it never sleeps");
            std::thread::yield_now();
        }
        // Many times within one tick.
        for _ in 0..1000 {
            assert!(any_runs(spins.id() as i32));
        }
        spins.kill().expect("ours");
        spins.wait().expect("ours");
        drop(sleeps.stdin.take());
        sleeps.wait().expect("ours");
    }
}
