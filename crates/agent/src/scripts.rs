//! Makes the VM evaluate the command's text ([`SCRIPT`]), and copies the string that results.
//!
//! Ruby is entered as for all other requests ([`jobs`]). Python is entered here, also for a [`snapshot`] and to count its births:
//!
//! ```text
//!   a thread that runs, or waits with Python's lock ──► Py_AddPendingCall   the main thread does it at its next safe point
//!   the main thread, blocked without the lock ────────► PyGILState_Ensure   it takes the lock and does it now
//! ```

mod functions;

pub use functions::{at, function};

use crate::births::agent::AGENT;
use crate::births::python::{census, counting, end};
use crate::jobs;
use crate::memory::direct::Direct;
use crate::shared::{CONFIG, CONTROL_PAGE, SCRIPT};
use crate::snapshot::{self, Heap};
use core::sync::atomic::Ordering;
use vm::Memory;
use wire::control_page::CENSUS_BLOCKED;
use wire::control_page::enter::{HOLDS, LOCK, REGISTER};
use wire::script::python::{
    ADD_PENDING_CALL, AS_UTF8, DEC_REF, DICT_NEW, ERR_CLEAR, ERR_FETCH, ERR_RESTORE,
    GIL_STATE_CHECK, GIL_STATE_ENSURE, GIL_STATE_RELEASE, RUN_STRING,
};
use wire::script::{Outcome, TEXT};
use wire::{Reply, Request};

/// `Py_eval_input` (`Include/compile.h`): the text is one expression.
const EXPRESSION: i32 = 258;

/// Evaluates the text as Ruby. The VM's lock is held, at a safe point.
pub fn evaluate() -> Reply {
    // SAFETY: the VM's lock is held, under which alone the agent and the text are used.
    let (agent, script) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut SCRIPT)) };
    // SAFETY: the VM's lock is held, at a safe point, as `evaluate` requires; the command has ended the text with a zero.
    let value = unsafe { agent.vm.evaluate(&script.text) };
    let outcome = match (value, agent.names.reader()) {
        (None, _) => Outcome::Raised,
        (Some(_), None) => Outcome::Unreadable,
        (Some(value), Some(reader)) => match reader.text(value) {
            // Nothing is allocated meanwhile, so the string still exists.
            Ok(text) => copy(text.address, text.len),
            Err(_) => Outcome::Unreadable,
        },
    };
    script.outcome = outcome as u64;
    Reply::Done
}

/// Copies an answer to where the text was.
fn copy(at: u64, length: u64) -> Outcome {
    // SAFETY: the caller holds the VM's lock (Ruby's or Python's), under which alone the text is used, and does not use the text itself
    // meanwhile.
    let script = unsafe { &mut *(&raw mut SCRIPT) };
    // The last byte stays zero.
    let place = script.text[..TEXT - 1].get_mut(..length as usize);
    if place.is_none_or(|place| Direct.read(at, place).is_err()) {
        return Outcome::Unreadable;
    }
    script.length = length;
    Outcome::Answered
}

/// A borrowed main thread of a Python calls this.
#[unsafe(no_mangle)]
extern "C" fn enter_python(what: u64) -> u64 {
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
            python(true);
            release(state);
        }
    }
    0
}

/// Python's main thread calls this at a safe point, with the lock held. An exception that it leaves is raised in the program there.
extern "C" fn pending(_: u64) -> i32 {
    CONTROL_PAGE.pending.store(0, Ordering::Relaxed);
    python(false)
}

/// The main thread of a Python that lancet has started calls this before the script begins, with the lock held.
pub fn at_script() {
    python(true);
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
fn python(alone: bool) -> i32 {
    // Evaluated code releases the lock now and then. While the main thread waits for it, the command may make the thread enter again, or
    // Python may make a call that was registered before.
    let Some(asked) = jobs::begin() else { return 0 };
    let request = CONTROL_PAGE.request.load(Ordering::Relaxed);
    if request == Request::Snapshot as u32 {
        if snapshot::is_collecting() {
            // A finalizer is running. The command will make the thread enter again.
            jobs::put_off();
        } else {
            jobs::end(asked, snapshot::take(Heap::Python));
        }
        return 0;
    }
    if request != Request::Evaluate as u32 {
        jobs::end(asked, count(request, alone));
        return 0;
    }
    // SAFETY: Python's lock is held, at a safe point; no other thread is at work, and the command has ended the text with a zero.
    let (outcome, raised) = unsafe { run() };
    if raised && alone {
        raise_later();
    }
    // SAFETY: Python's lock is held, under which alone the agent writes `SCRIPT`; the command reads the word only after `answered`.
    unsafe { (&raw mut SCRIPT.outcome).write(outcome as u64) };
    jobs::end(asked, Reply::Done);
    if raised && !alone { -1 } else { 0 }
}

/// An exception that is raised in the program at its next safe point: type, value and traceback.
static mut LATER: [u64; 3] = [0; 3];

/// Puts the current exception off to the next safe point of the main thread, because the code that the thread returns to from here cannot
/// be told of it. Python's lock is held.
fn raise_later() {
    // SAFETY: the command has written the functions' addresses; Python's lock is held, under which alone `LATER` is used. The thread runs
    // its own code here, so `Py_AddPendingCall` may wait for its lock.
    unsafe {
        let clear: unsafe extern "C" fn() = function(ERR_CLEAR);
        if LATER[0] != 0 {
            clear();
            return;
        }
        let fetch: unsafe extern "C" fn(*mut u64, *mut u64, *mut u64) = function(ERR_FETCH);
        let add: unsafe extern "C" fn(extern "C" fn(u64) -> i32, u64) -> i32 =
            function(ADD_PENDING_CALL);
        let later = &raw mut LATER;
        fetch(
            (&raw mut (*later)[0]).cast(),
            (&raw mut (*later)[1]).cast(),
            (&raw mut (*later)[2]).cast(),
        );
        if add(raise, 0) != 0 {
            raise(0);
            clear();
        }
    }
}

/// Python's main thread calls this at a safe point, with the lock held: sets the exception that was put off.
extern "C" fn raise(_: u64) -> i32 {
    // SAFETY: Python's lock is held, under which alone `LATER` is used; the references in it are given to the function.
    unsafe {
        let restore: unsafe extern "C" fn(u64, u64, u64) = function(ERR_RESTORE);
        let later = &raw mut LATER;
        let [kind, value, traceback] = later.read();
        later.write([0; 3]);
        if kind == 0 {
            return 0;
        }
        restore(kind, value, traceback);
    }
    -1
}

/// Evaluates the text of a request in a namespace of its own. Returns the outcome, and whether an exception is set. The answer is copied
/// to where the text was: no command writes another text there while a thread is at work.
///
/// # Safety
/// Python's lock is held, at a safe point.
unsafe fn run() -> (Outcome, bool) {
    // SAFETY: the caller holds Python's lock, at a safe point. The command has written the functions' addresses, and the prototypes are
    // Python's.
    unsafe {
        let new: unsafe extern "C" fn() -> u64 = function(DICT_NEW);
        let run: unsafe extern "C" fn(*const u8, i32, u64, u64) -> u64 = function(RUN_STRING);
        let utf8: unsafe extern "C" fn(u64, *mut i64) -> u64 = function(AS_UTF8);
        let release: unsafe extern "C" fn(u64) = function(DEC_REF);
        let namespace = new();
        if namespace == 0 {
            return (Outcome::Raised, true);
        }
        let text = (&raw const SCRIPT.text).cast::<u8>();
        let value = run(text, EXPRESSION, namespace, namespace);
        if value == 0 {
            release(namespace);
            return (Outcome::Raised, true);
        }
        let mut length = 0;
        let at = utf8(value, &raw mut length);
        let outcome = match at {
            0 => Outcome::Unreadable,
            at => copy(at, length as u64),
        };
        release(value);
        release(namespace);
        (outcome, at == 0)
    }
}
