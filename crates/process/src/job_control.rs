//! lancet itself is stopped (Ctrl-Z, SIGSTOP) while a guest stands still for it: the guest goes first.
//!
//! A thread that stands still for us goes on only by our hand or by our death. Were we stopped meanwhile it would stand
//! until somebody continues us. So, once a command has called [`heed`]:
//!
//! * **SIGTSTP, SIGTTIN, SIGTTOU** have a handler. Between stops it stops us as the default action would. While a
//!   [`Stop`](crate::stop::Stop) lasts it only notes the signal, and we stop as soon as the guest goes on.
//! * **SIGSTOP** cannot be caught. A small process of ours, the `watcher`, continues us when it finds us stopped while a
//!   stop lasts, so that we let the guest go and stop again. If we do not come that far it kills us: then the kernel
//!   lets the guest go, which goes on with hooks that fall through, as after any `kill -9`.
//!
//! Both go by one word that counts the stops under way, in memory that we share with the watcher. A stop begins only
//! while we are not about to stop ourselves (`STOPPING`), and we stop ourselves only while none is under way, so the
//! two cannot cross.
//!
//! Against the freezer of a control group in which lancet is, and the guest is not, nothing helps: it freezes the watcher
//! too, and a process outside would have to be left behind there. A guest that stood still in that moment stands until the group
//! is thawed; a frozen lancet that is killed lets go of it at once (version 2 of control groups).

mod watcher;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// What we share with the watcher.
#[derive(Debug, Default)]
#[repr(C)]
struct Shared {
    /// How many stops are under way; [`STOPPING`] = none, and we are about to stop ourselves.
    under_way: AtomicU32,
    /// How many stops have begun, modulo 2^32.
    begun: AtomicU32,
    /// By which signal we stop ourselves when no stop is under way any more; 0 = not.
    pending: AtomicI32,
}

const STOPPING: u32 = 1 << 31;

/// The signals that a terminal stops a process by.
const BY_TERMINAL: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Until [`heed`], and where no memory could be shared: nobody else looks at it.
static ALONE: Shared = Shared {
    under_way: AtomicU32::new(0),
    begun: AtomicU32::new(0),
    pending: AtomicI32::new(0),
};
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

fn shared() -> &'static Shared {
    SHARED.get().copied().unwrap_or(&ALONE)
}

/// From now on a guest goes on before we stop; see the module's text. To be called once, before threads are made and before
/// the first stop.
pub fn heed() {
    if let Some(shared) = watcher::start() {
        let _ = SHARED.set(shared);
    }
    for signal in BY_TERMINAL {
        // SAFETY: a live record.
        let now = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        };
        if now == libc::SIG_DFL {
            catch(signal);
        }
    }
}

/// With SA_RESTART, because nothing is to be seen of a signal after which we go on.
fn catch(signal: i32) {
    // SAFETY: a live record; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn note(signal: libc::c_int) {
    shared().pending.store(signal, Ordering::SeqCst);
    stop_if_asked(shared());
}

/// Stops this process if that was asked for and no stop is under way; returns when it is continued.
fn stop_if_asked(shared: &Shared) {
    while shared.pending.load(Ordering::SeqCst) != 0 {
        let order = Ordering::SeqCst;
        let alone = shared
            .under_way
            .compare_exchange(0, STOPPING, order, order)
            .is_ok();
        if !alone {
            // Whoever ends the last stop, or whoever stops us, comes by here too.
            return;
        }
        match shared.pending.swap(0, Ordering::SeqCst) {
            0 => {}
            signal => stop_by(signal),
        }
        shared.under_way.store(0, Ordering::SeqCst);
    }
}

/// Takes the default action of a signal that stops. The kernel decides whether it does: in a process group that no shell
/// controls SIGTSTP is ignored.
fn stop_by(signal: i32) {
    // SAFETY: async-signal-safe calls with live arguments; `errno` is put back for whoever we interrupt.
    unsafe {
        let errno = *libc::__errno_location();
        let mut only: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        if signal != libc::SIGSTOP {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::raise(signal);
        // In its handler the signal is blocked; here it comes.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if signal != libc::SIGSTOP {
            catch(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// A stop is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(&'static Shared);

impl UnderWay {
    /// Begins one, after the stop of ourselves that is going on, if any.
    pub fn begin() -> Self {
        let shared = shared();
        loop {
            let now = shared.under_way.load(Ordering::SeqCst);
            let order = Ordering::SeqCst;
            if now & STOPPING == 0
                && shared
                    .under_way
                    .compare_exchange(now, now + 1, order, order)
                    .is_ok()
            {
                shared.begun.fetch_add(1, Ordering::SeqCst);
                return UnderWay(shared);
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        stop_if_asked(self.0);
    }
}
