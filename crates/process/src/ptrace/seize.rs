//! Makes this thread of ours the tracer of a thread, within a bounded time. Used by `stop`, `stop::late` and others
//! here, and by crate `inject`.
//!
//! PTRACE_SEIZE waits for the mutex that a thread of the process holds from the begin of its execve to the end of all its other threads, and
//! until the next program is there (`cred_guard_mutex`; `ptrace_attach`, kernel/ptrace.c). A traced thread has ended only when its tracer has heard of it, so an exec can
//! wait for a thread of ours, and we for the exec: ptrace(2) names that in "Death under ptrace", and the kernel does not find it out. So
//! the timer of [`Bounded`] takes PTRACE_SEIZE back where it waits. Then the ends of threads of ours in that process are heard, which lets
//! the exec go on, and it is made again.
//!
//! A signal alone does not end that wait, because the kernel has the call made again after the handler (ERESTARTNOINTR). The handler
//! of the timer's signal sees that the thread is about to make it, and has it go on behind it.

use super::request::{request, unheard_of};
use super::{Bounded, PATIENCE, forget_end, poll, signal_information};
use crate::threads::thread_ids;
use nix::errno::Errno;
use std::time::{Duration, Instant};

/// Makes us the tracer of thread `tid` without stopping it.
///
/// # Errors
/// Those of ptrace(2), and of an exec of its process that is under way: EBUSY where that waits for a thread of ours which stands at
/// `PTRACE_EVENT_EXIT`, and so for the code that takes this event; ETIMEDOUT where it was waited for 50 ms, because threads may stand still
/// meanwhile (while the exec sleeps: for one that runs the kernel waits without a look at signals, `mutex_spin_on_owner`). A thread whose own exec was waited for is traced
/// under the id of its process.
pub fn seize(tid: i32, options: i32) -> Result<(), Errno> {
    let mut left = PATIENCE;
    seize_within(tid, options, &mut left)
}

/// The same where execs are waited for as long as `left` says, from which the waits are taken.
pub(crate) fn seize_within(tid: i32, options: i32, left: &mut Duration) -> Result<(), Errno> {
    // Some machines give no timer (an emulator of processors, a limit that is reached): there the kernel's wait has no bound.
    let waits = Bounded::begin();
    waits.runs();
    loop {
        let began = Instant::now();
        match request(libc::PTRACE_SEIZE, tid, 0, options as usize) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => {
                // It may have the id of one that has ended.
                forget_end(tid);
                return Ok(());
            }
        }
        hear_ends(tid)?;
        // That an end was heard gives no more time: a guest can have one thread after the other end.
        *left = left.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(Errno::ETIMEDOUT);
        }
    }
}

/// Hears of the end of each thread that this thread of ours traces in the process of `tid`; [`super::end_of`] knows of it afterwards.
///
/// # Errors
/// EBUSY where one stands at `PTRACE_EVENT_EXIT`; if that is not told yet, it stays to be told.
pub(crate) fn hear_ends(tid: i32) -> Result<(), Errno> {
    const AT_EXIT: i32 = libc::PTRACE_EVENT_EXIT << 8 | libc::SIGTRAP;
    let mut at_exit = false;
    // Without a list it is gone, which the next try to seize it tells.
    for other in thread_ids(tid).unwrap_or_default() {
        // What other threads of ours trace they hear of themselves.
        let how = libc::WNOHANG | libc::__WNOTHREAD;
        let Some(told) = unheard_of(libc::P_PID, other as libc::id_t, how) else {
            // That event was told before, and is not handled yet.
            at_exit |= signal_information(other).is_ok_and(|stands| stands.si_code == AT_EXIT);
            continue;
        };
        // SAFETY: the kernel filled it in for a child or a thread of ours, and this field is then valid.
        match (told.si_code, unsafe { told.si_status() }) {
            // An error means that there is nothing to hear any more.
            (libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _) => drop(poll(other)),
            (libc::CLD_TRAPPED, AT_EXIT) => at_exit = true,
            _ => {}
        }
    }
    if at_exit { Err(Errno::EBUSY) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
