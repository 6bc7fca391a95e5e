//! What each thread must allow in which code of ours will run: its system calls reach the kernel, and its seccomp filter allows those that we make.
//!
//! Both belong to a thread, and each thread that is to run hooks is asked, while all of them stand still. What a thread takes from itself later it
//! says before it does so (`wire::notices::notice::LOCKS`). The time stamp counter is not asked for here: only the thread itself can ask
//! the kernel whether it may read it (`prctl(PR_GET_TSC)`), and does so before its first look at it.

use process::error::{Error, Result};
use process::ptrace;

use crate::seccomp::{self, Call};

/// Why nothing is hooked in a process of which a thread has its system calls dispatched to a handler of the program's own.
const DISPATCHES: &str = "system calls of one of its threads go to a handler of its own (Syscall User Dispatch), as those that hooks make there would";

/// Asks stopped threads of a process for all that is needed; those that are `filtered` have a seccomp filter, which must allow `more` beside
/// what every agent calls.
pub fn check_stopped(
    pid: i32,
    threads: impl Iterator<Item = i32>,
    filtered: &[i32],
    more: &[Call],
) -> Result<()> {
    for tid in threads {
        if ptrace::dispatches_system_calls(tid) {
            let reason = DISPATCHES;
            return Err(Error::NotAGuest { pid, reason });
        }
        if filtered.contains(&tid) {
            seccomp::check(pid, tid, more)?;
        }
    }
    Ok(())
}
