//! Notes the signals that ask lancet to end, so that it leaves its guests cleanly and prints what it knows. Used by
//! `watching::run`, `commands::heap::live`, `commands::mem::run` and others.

use crate::{failure, reserve};
use process::asked::SIGNAL;
use std::sync::atomic::{AtomicBool, Ordering};

extern "C" fn note(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// The same of a signal that somebody has sent to us. The Ctrl-C of a terminal is the kernel's.
extern "C" fn note_sent(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands a whole record over.
    let code = unsafe { (*info).si_code };
    if code != libc::SI_KERNEL {
        note(signal);
    }
}

/// Notes SIGINT, SIGTERM and SIGHUP from now on, in place of ending by them. A second one changes nothing: leaving
/// takes milliseconds.
///
/// What was ignored when lancet was started (`nohup`) stays so, for us and for a program that we start, but for SIGINT: a shell without job
/// control has what it starts in the background ignore it, so that the Ctrl-C of somebody else's command does not end it. `kill -INT` is
/// meant for us then, and is obeyed.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: live records; the handlers read one and do one atomic store. Without SA_RESTART, so that waiting ends.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            let only_sent = note_sent as *const () as usize;
            let before = action.sa_sigaction;
            action = std::mem::zeroed();
            match (before == libc::SIG_IGN, signal) {
                // From an earlier call.
                _ if before == only_sent => continue,
                (true, libc::SIGINT) => {
                    inject::tracee::note_interrupts_ignored();
                    action.sa_sigaction = only_sent;
                    action.sa_flags = libc::SA_SIGINFO;
                }
                (true, _) => continue,
                (false, _) => action.sa_sigaction = note as *const () as usize,
            }
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// SIGHUP has asked for the configuration to be read again.
static AGAIN: AtomicBool = AtomicBool::new(false);

extern "C" fn note_again(_: libc::c_int) {
    AGAIN.store(true, Ordering::Relaxed);
}

/// Has SIGHUP ask from now on for the configuration to be read again, and not for the end. It does so where it was ignored, too: who sends it
/// to a service means this.
pub fn catch_again() {
    // SAFETY: a live record; the handler does one atomic store. Without SA_RESTART, so that waiting ends.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_again as *const () as usize;
        libc::sigaction(libc::SIGHUP, &raw const action, std::ptr::null_mut());
    }
}

/// Whether it was asked since the last time.
pub fn asked_again() -> bool {
    AGAIN.swap(false, Ordering::Relaxed)
}

extern "C" fn ignore(_: libc::c_int) {}

/// Has a write beyond the largest size of a file (`RLIMIT_FSIZE`, `ulimit -f`) fail with EFBIG, and not end lancet by SIGXFSZ: whatever is
/// written is then refused as on a full disk, and guests are left. A handler and not SIG_IGN, because a program that we start has the
/// default in place of a handler, but would inherit SIG_IGN. Where we were started with SIG_IGN it stays, for us and for that program.
pub fn outlive_file_size_limit() {
    // SAFETY: live records; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            return;
        }
        action = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
    }
}

/// Has the end of our parent ask us to end, as Ctrl-C would.
///
/// # Errors
/// It has ended before.
pub fn end_with(parent: i32) -> std::io::Result<()> {
    ask_at_end_of(parent).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => std::io::Error::other(format!(
            "process {parent}, which this was to end with, has ended"
        )),
        _ => error,
    })
}

/// The same between fork and exec: system calls on numbers, and nothing else.
///
/// # Errors
/// `ESRCH`: it has ended before.
pub fn ask_at_end_of(parent: i32) -> std::io::Result<()> {
    // SAFETY: no memory is handed over.
    let set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) };
    match set {
        0 if has_ended(parent) => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns whether our parent, which was this process, has ended.
pub fn has_ended(parent: i32) -> bool {
    // SAFETY: no memory is handed over.
    parent != unsafe { libc::getppid() }
}

/// Returns whether lancet is to end: such a signal has come, one of its threads has panicked, or its memory has come to its end.
pub fn asked() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0 || failure::has_begun() || reserve::is_used()
}

/// Forgets a Ctrl-C that was obeyed: it has ended a part of the work, and the rest is done.
pub fn forget_obeyed() {
    let _ = SIGNAL.compare_exchange(libc::SIGINT, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Ends lancet by the signal that has asked for it, if one has, as if it were not caught.
pub fn end() {
    let signal = SIGNAL.load(Ordering::Relaxed);
    if signal != 0 {
        end_by(signal);
    }
}

/// Ends lancet by a signal, without a core; it returns if that is none that ends a process.
pub fn end_by(signal: i32) {
    // Too small for a file. With 0 the kernel would still start what the machine has for cores (`kernel.core_pattern`); see core(5).
    let least = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: live records of ours; what there is to clean up was cleaned up by the caller.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const least);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
}
