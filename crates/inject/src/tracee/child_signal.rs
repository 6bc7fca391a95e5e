//! SIGCHLD, by which the kernel says that something has happened to a child or a tracee.

use process::ptrace::Unheard;
use std::cell::Cell;
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
    end_waits();
    let set = child_signal();
    let time = libc::timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    // SAFETY: set and time are live values of this frame; a null pointer is allowed where no details are wanted.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
}

/// How often the timer comes, which ends a wait.
const EACH: Duration = Duration::from_millis(1);

/// Waits at most a millisecond for a child or a thread with an event that was not taken yet, which stays pending: in waitid(2), where the
/// kernel hands the processor from a thread that stops to one that waits there, and does not where a signal ends the wait. A timer bounds
/// each wait; it runs from the first wait until [`wait_for_any`] or [`end_waits`], because to set a timer costs as much as a stop where
/// the processor is a virtual one, and processes of a tree have their turns one after the other.
pub fn next_event() -> Option<Unheard> {
    let Some(timer) = TIMER.with(|timer| *timer) else {
        wait_for_any(EACH);
        let tid = process::ptrace::unheard()?;
        return Some(Unheard {
            tid,
            at_call: false,
        });
    };
    if !RUNS.replace(true) {
        set(timer, EACH);
    }
    process::ptrace::next_unheard()
}

/// Stops the timer of [`next_event`], which interrupts system calls of this thread.
pub fn end_waits() {
    if let (true, Some(timer)) = (RUNS.replace(false), TIMER.with(|timer| *timer)) {
        set(timer, Duration::ZERO);
    }
}

thread_local! {
    /// Whether the timer runs.
    static RUNS: Cell<bool> = const { Cell::new(false) };
    /// The timer of this thread, made when it is first wanted; none if the kernel gives none.
    static TIMER: Option<libc::timer_t> = timer();
}

/// Makes a timer that interrupts system calls of this thread.
fn timer() -> Option<libc::timer_t> {
    extern "C" fn interrupts(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = interrupts;
    // SAFETY: all structures are zeroed, for which zero is valid, and live through the calls. The handler does nothing, so it is
    // async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        let mut alone = std::mem::zeroed();
        libc::sigemptyset(&raw mut alone);
        libc::sigaddset(&raw mut alone, libc::SIGALRM);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::mem::zeroed();
        let made = libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) == 0
            && libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alone, std::ptr::null_mut())
                == 0
            && libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
        made.then_some(timer)
    }
}

/// Has a timer come after each such time; zero: never.
fn set(timer: libc::timer_t, each: Duration) {
    let time = libc::timespec {
        tv_sec: each.as_secs() as i64,
        tv_nsec: i64::from(each.subsec_nanos()),
    };
    let when = libc::itimerspec {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the timer is this thread's own and is never deleted; `when` is a live value of this frame.
    unsafe { libc::timer_settime(timer, 0, &raw const when, std::ptr::null_mut()) };
}
