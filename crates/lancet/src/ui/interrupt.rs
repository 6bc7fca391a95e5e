//! Notes the signals that ask lancet to end, so that it leaves its guests cleanly and prints what it knows.

use crate::failure;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Notes SIGINT, SIGTERM and SIGHUP from now on, in place of ending by them. A second one changes nothing: leaving
/// takes milliseconds.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: live records; the handler does one atomic store. Without SA_RESTART, so that waiting ends.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                // `nohup`: for us, and for a program that we start.
                continue;
            }
            action = std::mem::zeroed();
            action.sa_sigaction = note as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Returns whether lancet is to end: such a signal has come, or one of its threads has panicked.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) || failure::has_begun()
}
