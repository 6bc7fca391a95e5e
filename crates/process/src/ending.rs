//! How a process ended that is not a child of ours, so that no wait tells us. Used by `hooks::target`.
//!
//! Once its parent has waited for it the kernel answers by a descriptor of the process that was opened before
//! (`PIDFD_GET_INFO` with `PIDFD_INFO_EXIT`, include/uapi/linux/pidfd.h, Linux 6.15); until then its status stands in
//! `/proc/PID/stat` (`exit_code`, proc_pid_stat(5)).

use crate::guest::Status;
use crate::pidfd::PidFd;
use std::time::Duration;

/// Returns the signal that ended a process; `None` if it exited by itself, has not ended, or the kernel does not tell.
pub fn signal_of(process: &PidFd, pid: i32) -> Option<i32> {
    // Until its parent has waited for it, nobody else has its id.
    process.has_ended(Duration::ZERO).then_some(())?;
    let waited = || process.exit_status();
    // Its parent may wait for it between the two.
    let status = waited().or_else(|| of_unwaited(pid)).or_else(waited)?;
    match status & 0x7f {
        0 => None,
        signal => Some(signal),
    }
}

/// Returns the wait status of a process that has ended and was not waited for yet.
fn of_unwaited(pid: i32) -> Option<i32> {
    let status = Status::read(pid).ok()?;
    status.has_ended().then_some(status.exit_status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_signal_is_told_from_an_exit_before_and_after_the_wait() {
        for (script, expected) in [("kill -SEGV $$", Some(libc::SIGSEGV)), ("exit 11", None)] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
            let pid = child.id() as i32;
            let process = PidFd::open(pid).expect("it is there");
            assert!(process.has_ended(Duration::from_secs(60)));
            assert_eq!(signal_of(&process, pid), expected, "{script}");
            child.wait().expect("it has ended");
            let told = signal_of(&process, pid);
            // Kernels before 6.15 do not tell.
            assert!(told.is_none() || told == expected, "{script}: {told:?}");
        }
    }
}
