//! SIGCHLD, by which the kernel says that something has happened to a child or a tracee. Used by `lifecycle` and
//! `daemonized`, and by the crates `calls`, `births` and `lancet`.

use process::ptrace::{Bounded, EACH, Unheard};
use std::sync::OnceLock;
use std::time::Duration;

/// The mask before the signal was blocked; none if it is not.
static BEFORE: OnceLock<libc::sigset_t> = OnceLock::new();

fn child_signal() -> libc::sigset_t {
    // SAFETY: the set is zeroed and initialised by `sigemptyset` before it is used; the calls get its address only.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// Blocks the signal by which the kernel reports stops, so that it can be waited for. Returns the mask from before the first call, which
/// programs get that we start. It must be called before other threads are made: one that does not block the signal would be woken by it, and
/// nobody else.
pub fn hold_child_signal() -> libc::sigset_t {
    let set = child_signal();
    // SAFETY: both sets are live values of this frame.
    let before = unsafe {
        let mut before = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        before
    };
    *BEFORE.get_or_init(|| before)
}

/// Waits at most `most` until something happens to any tracee. A signal to lancet ends the wait too, and so does what has happened
/// and was handled since the last wait.
pub fn wait_for_any(most: Duration) {
    let set = child_signal();
    let time = libc::timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    // SAFETY: set and time are live values of this frame; a null pointer is allowed where no details are wanted.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
}

/// Waits at most a millisecond for a child or a thread with an event that was not taken yet, which stays pending: in waitid(2), where the
/// kernel hands the processor from a thread that stops to one that waits there, and does not where a signal ends the wait. `waits` is the
/// timer that bounds it, which runs from the first wait until it is dropped: it interrupts system calls of this thread, so its owner keeps it
/// for no longer than it waits for events of tracees.
pub fn next_event(waits: &Bounded) -> Option<Unheard> {
    if waits.runs() {
        return process::ptrace::next_unheard();
    }
    wait_for_any(EACH);
    let tid = process::ptrace::unheard()?;
    Some(Unheard {
        tid,
        at_call: false,
    })
}
