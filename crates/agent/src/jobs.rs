//! Where a thread of the guest comes into the agent to do what the command requests. What a VM is asked to do, each language's folder does
//! ([`languages`]). Used by `calls::notices`.
//!
//! ```text
//!   thread in a remote call ──► enter ──► the VM's language: makes the VM call us at a safe point, or takes its lock
//!   VM, at a safe point ──────► the same: `at_work::begin`, the work, `at_work::end`
//! ```

use crate::calls::share;
use crate::shared::{CONFIG, CONTROL_PAGE};
use crate::{languages, snapshot};
use core::sync::atomic::Ordering;
use wire::control_page::enter::{COPY, LANGUAGE, REAP, SHARE};

/// A borrowed thread calls this, wherever it was stopped, so it does only what a signal handler may do, and of the doors into the VM
/// what the command has shown to be open there.
#[unsafe(no_mangle)]
extern "C" fn enter(what: u64) -> u64 {
    if let Some(language) = languages::of(what >> LANGUAGE) {
        (language.enter)(what);
    }
    // All of these may be done anywhere, because they are system calls and need no lock of the program or its VM.
    if what & REAP != 0 {
        snapshot::reap();
    }
    if what & SHARE != 0 {
        share::share();
    }
    if what & COPY != 0 {
        let reply = snapshot::take(None);
        CONTROL_PAGE.reply.store(reply as u32, Ordering::Release);
    }
    0
}

/// Does what waits when the script of a program begins that lancet has started.
///
/// # Safety
/// This is the main thread, which is about to run the script and has the VM's lock; nothing of the VM is on its stack but what calls the
/// script.
pub unsafe fn at_script() {
    // SAFETY: the command has written the word before it let this thread go on.
    let language = unsafe { (*(&raw const CONFIG)).language };
    if let Some(language) = languages::of(language) {
        // SAFETY: the caller keeps the same condition.
        unsafe { (language.at_script)() };
    }
}
