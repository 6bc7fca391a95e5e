//! Lets the guest go on when lancet itself is stopped (Ctrl-Z, SIGSTOP) while the guest stands still for it. Used by
//! `stop` and `stop::late`, and by `lancet`.
//!
//! A thread that stands still for lancet goes on only if lancet lets it or dies. If lancet were stopped meanwhile, the thread
//! would stand still until lancet is continued. So, once a command has called [`heed`]:
//!
//! * **SIGTSTP, SIGTTIN, SIGTTOU** have a handler. Between stops of a guest it stops lancet as the default action would.
//!   While a [`Stop`](crate::stop::Stop) lasts it only notes the signal, and lancet stops as soon as the guest goes on.
//! * **SIGSTOP** cannot be caught. A small process of ours, the `watcher`, continues lancet when it finds lancet stopped
//!   during a stop of a guest, so that the guest is let go and lancet stops again. If that does not work it kills lancet:
//!   then the kernel lets the guest go, which goes on with hooks that fall through, as after any `kill -9`.
//!
//! Both use one word that counts the stops under way, in memory that lancet shares with the watcher. A stop begins only while
//! lancet is not about to stop itself (`STOPPING`), and lancet stops itself only while none is under way, so the two cannot
//! overlap.
//!
//! Nothing helps against the freezer of a control group that contains lancet and not the guest: it freezes the watcher too, and
//! preventing that would need a process left behind outside of the group. A guest that stands still at that moment stands until
//! the group is thawed; a frozen lancet that is killed lets go of it at once (version 2 of control groups).

mod watcher;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// What we share with the watcher.
#[derive(Debug, Default)]
#[repr(C)]
struct Shared {
    /// Number of stops under way; [`STOPPING`] = none, and lancet is about to stop itself.
    under_way: AtomicU32,
    /// Number of stops that have begun, modulo 2^32.
    begun: AtomicU32,
    /// The signal by which lancet stops itself when no stop is under way any more; 0 = none.
    pending: AtomicI32,
}

const STOPPING: u32 = 1 << 31;

/// The signals by which a terminal stops a process.
const BY_TERMINAL: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Used before [`heed`], and if no memory could be shared: then no watcher reads it.
static ALONE: Shared = Shared {
    under_way: AtomicU32::new(0),
    begun: AtomicU32::new(0),
    pending: AtomicI32::new(0),
};
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

fn shared() -> &'static Shared {
    SHARED.get().copied().unwrap_or(&ALONE)
}

/// From now on a guest goes on before lancet stops; see the module's documentation. It must be called once, before threads are
/// made and before the first stop.
pub fn heed() {
    if let Some(shared) = watcher::start() {
        let _ = SHARED.set(shared);
    }
    for signal in BY_TERMINAL {
        // SAFETY: all zeros is a valid `sigaction`; it is a live value of this frame, to which the call writes.
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

/// Installs the handler. SA_RESTART is set, because a signal after which lancet goes on should have no other effect.
fn catch(signal: i32) {
    // SAFETY: the `sigaction` is a live value of this frame, and the handler makes only async-signal-safe calls.
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

/// Stops this process if a signal asks for it and no stop is under way. Returns when it is continued.
fn stop_if_asked(shared: &Shared) {
    while shared.pending.load(Ordering::SeqCst) != 0 {
        let order = Ordering::SeqCst;
        let alone = shared
            .under_way
            .compare_exchange(0, STOPPING, order, order)
            .is_ok();
        if !alone {
            // The code that ends the last stop, and the next signal, call this function too.
            return;
        }
        match shared.pending.swap(0, Ordering::SeqCst) {
            0 => {}
            signal => stop_by(signal),
        }
        shared.under_way.store(0, Ordering::SeqCst);
    }
}

/// Takes the default action of a signal that stops the process. The kernel decides whether it stops: in a process group that no
/// shell controls, SIGTSTP is ignored.
fn stop_by(signal: i32) {
    // SAFETY: only async-signal-safe calls with live values of this frame; `errno` is restored for the code that a handler has
    // interrupted.
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
        // In the signal's own handler the signal is blocked; it is delivered here.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if signal != libc::SIGSTOP {
            catch(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// Counts as a stop under way until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(&'static Shared);

impl UnderWay {
    /// Begins a stop, after lancet's own stop if one is going on.
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
