//! Signals that come in anywhere, each of which makes the call of a test once more.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static HANDLED: AtomicU32 = AtomicU32::new(0);
static CALLED: AtomicU64 = AtomicU64::new(0);
/// Address of the count for [`pass_look`]; 0 = there is none.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Goes past the next multiple of 1,024 where a count is near it: the call that makes it goes to the agent, which is not there. To be asked before
/// each call, in the handler, too: on a busy machine one signal may follow on another until a hundred have come between two instructions.
///
/// # Safety
/// The count is alive, and no signal comes in meanwhile.
pub unsafe fn pass_look(count: *mut u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if *count % 1024 > 1000 {
            *count += 2 * 1024 - *count % 1024 + 1;
        }
    }
}

extern "C" fn handler(_: i32) {
    let count = COUNT.load(Ordering::Relaxed) as *mut u64;
    if !count.is_null() {
        // SAFETY: the test's own; this signal is blocked in its handler, and the code that it has interrupted adds by one instruction.
        unsafe { pass_look(count) };
    }
    let call = CALLED.load(Ordering::Relaxed);
    // SAFETY: the function of the test, which takes one argument.
    let call: extern "C" fn(u64) -> i64 = unsafe { std::mem::transmute(call) };
    call(0);
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// A timer whose signals come to this thread, so that the handler runs on it between any two instructions, and makes the call too.
pub struct Signals {
    timer: libc::timer_t,
    old: libc::sighandler_t,
}

impl Signals {
    /// Has the handler make this call. A count that it must not bring to a multiple of 1,024 is told by its address.
    pub fn new(call: u64, count: Option<*mut u64>) -> Self {
        CALLED.store(call, Ordering::Relaxed);
        COUNT.store(count.map_or(0, |count| count as u64), Ordering::Relaxed);
        HANDLED.store(0, Ordering::Relaxed);
        // SAFETY: plain calls.
        let made = unsafe {
            let old = libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            assert_eq!(made, 0);
            Signals { timer, old }
        };
        made.every(20_000);
        made
    }

    fn every(&self, nanoseconds: i64) {
        let every = libc::timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        };
        let spec = libc::itimerspec {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: the timer is there.
        unsafe { libc::timer_settime(self.timer, 0, &raw const spec, std::ptr::null_mut()) };
    }

    /// Runs something while no signal comes.
    pub fn without(&self, run: impl FnOnce()) {
        self.every(0);
        run();
        self.every(20_000);
    }

    /// How many have come.
    pub fn handled() -> u64 {
        HANDLED.load(Ordering::Relaxed).into()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the timer is there; one that is still to come finds the handler until the next line.
        unsafe {
            libc::timer_delete(self.timer);
            libc::signal(libc::SIGUSR1, self.old);
        }
    }
}
