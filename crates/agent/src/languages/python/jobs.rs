//! Handles the command's requests to a Python. Used by `python`.
//!
//! ```text
//!   a thread that runs, or waits with Python's lock ──► Py_AddPendingCall   the main thread does it at its next safe point
//!   the main thread, blocked without the lock ────────► PyGILState_Ensure   it takes the lock and does it now
//! ```

use super::births::{census, counting, end};
use super::evaluation;
use super::snapshot::{HEAP, is_collecting};
use crate::languages::functions::function;
use crate::shared::{CONFIG, CONTROL_PAGE, SCRIPT};
use crate::{at_work, snapshot};
use core::sync::atomic::Ordering;
use vm::python::api::{ADD_PENDING_CALL, GIL_STATE_CHECK, GIL_STATE_ENSURE, GIL_STATE_RELEASE};
use wire::control_page::CENSUS_BLOCKED;
use wire::control_page::enter::{HOLDS, LOCK, REGISTER};
use wire::{Reply, Request};

/// A borrowed main thread of a Python calls this.
pub fn enter(what: u64) {
    if what & HOLDS != 0 {
        // SAFETY: the command has written the function's address; it reads two words and takes no lock.
        let holds = unsafe { function::<unsafe extern "C" fn() -> i32>(GIL_STATE_CHECK)() };
        let reply = if holds == 0 {
            Reply::Done
        } else {
            Reply::Refused
        };
        CONTROL_PAGE.reply.store(reply as u32, Ordering::Release);
    }
    if what & REGISTER != 0 {
        // SAFETY: the command has written the function's address; it may be called without Python's lock.
        unsafe {
            let add: unsafe extern "C" fn(extern "C" fn(u64) -> i32, u64) -> i32 =
                function(ADD_PENDING_CALL);
            // Written before: Python may make the call as soon as it is added.
            CONTROL_PAGE.pending.store(1, Ordering::Relaxed);
            if add(pending, 0) != 0 {
                CONTROL_PAGE.pending.store(0, Ordering::Relaxed);
            }
        }
    }
    if what & LOCK != 0 {
        // The thread keeps the program's own signal mask, which threads and processes inherit that the text starts. Signals with handlers
        // are put off by the command (`inject::remote_call`).
        // SAFETY: the command has written the functions' addresses, and has seen that the thread is blocked without the lock.
        unsafe {
            let ensure: unsafe extern "C" fn() -> i32 = function(GIL_STATE_ENSURE);
            let release: unsafe extern "C" fn(i32) = function(GIL_STATE_RELEASE);
            let state = ensure();
            serve(true);
            release(state);
        }
    }
}

/// Python's main thread calls this at a safe point, with the lock held. An exception that it leaves is raised in the program there.
extern "C" fn pending(_: u64) -> i32 {
    CONTROL_PAGE.pending.store(0, Ordering::Relaxed);
    serve(false)
}

/// The main thread of a Python that lancet has started calls this before the script begins.
///
/// # Safety
/// It is the main thread, which is about to run the script and has the VM's lock ([`crate::jobs::at_script`]).
pub unsafe fn at_script() {
    serve(true);
}

/// Does what is requested of the births of a Python. Its lock is held, at a safe point; `alone` = the thread was taken from a call that it
/// waits in, so none of the program's code may run.
fn count(request: u32, alone: bool) -> Reply {
    if request == Request::Watch as u32 {
        // SAFETY: `CONFIG` is written only while no thread runs here.
        if unsafe { (*(&raw const CONFIG)).census_at_end } != 0 {
            // SAFETY: the lock is held, at a safe point, as `register` requires; its blocks are made before any is counted.
            unsafe { end::register() };
        }
        counting::watch()
    } else if request == Request::Leave as u32 {
        counting::leave()
    } else if request == Request::Census as u32 && CONTROL_PAGE.hooked.load(Ordering::Relaxed) != 0
    {
        let argument = CONTROL_PAGE.argument.load(Ordering::Relaxed);
        census::take(argument | if alone { CENSUS_BLOCKED } else { 0 })
    } else {
        Reply::Refused
    }
}

/// Does what is requested of a Python, once for each request. Returns -1 if an exception was raised and is left for the program, which is
/// the case unless `alone`.
fn serve(alone: bool) -> i32 {
    // Evaluated code releases the lock now and then. While the main thread waits for it, the command may make the thread enter again, or
    // Python may make a call that was registered before.
    let Some(asked) = at_work::begin() else {
        return 0;
    };
    let request = CONTROL_PAGE.request.load(Ordering::Relaxed);
    if request == Request::Snapshot as u32 {
        if is_collecting() {
            // A finalizer is running. The command will make the thread enter again.
            at_work::put_off();
        } else {
            at_work::end(asked, snapshot::take(Some(&HEAP)));
        }
        return 0;
    }
    if request != Request::Evaluate as u32 {
        at_work::end(asked, count(request, alone));
        return 0;
    }
    // SAFETY: Python's lock is held, at a safe point; no other thread is at work, and the command has ended the text with a zero.
    let (outcome, raised) = unsafe { evaluation::run() };
    if raised && alone {
        // SAFETY: Python's lock is held, on the main thread, which was taken from its own code outside of Python.
        unsafe { evaluation::raise_later() };
    }
    // SAFETY: Python's lock is held, under which alone the agent writes `SCRIPT`; the command reads the word only after `answered`.
    unsafe { (&raw mut SCRIPT.outcome).write(outcome as u64) };
    at_work::end(asked, Reply::Done);
    if raised && !alone { -1 } else { 0 }
}
