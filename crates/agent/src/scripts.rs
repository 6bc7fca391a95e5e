//! Has the VM evaluate the command's text ([`SCRIPT`]) and copies the string that it evaluates to.
//!
//! Ruby is entered as for everything else ([`jobs`](crate::jobs)). Python is entered here, also for a [`snapshot`]:
//!
//! ```text
//!   a thread that runs, or waits with Python's lock ──► Py_AddPendingCall   the main thread does it at its next safe point
//!   the main thread, blocked without the lock ────────► PyGILState_Ensure   it takes the lock and does it now
//! ```

use crate::births::agent::AGENT;
use crate::memory::{direct::Direct, sys};
use crate::shared::{CONTROL_PAGE, SCRIPT};
use crate::snapshot::{self, Heap};
use core::sync::atomic::Ordering;
use vm::Memory;
use wire::control_page::enter::{HOLDS, LOCK, REGISTER};
use wire::script::python::{
    ADD_PENDING_CALL, AS_UTF8, DEC_REF, DICT_NEW, ERR_CLEAR, GIL_STATE_CHECK, GIL_STATE_ENSURE,
    GIL_STATE_RELEASE, RUN_STRING,
};
use wire::script::{Outcome, TEXT};
use wire::{Reply, Request, State};

/// `Py_eval_input` (`Include/compile.h`): the text is one expression.
const EXPRESSION: i32 = 258;

/// Evaluates Ruby. The VM's lock is held, at a safe point.
pub fn evaluate() -> Reply {
    // SAFETY: the VM's lock is held, so nobody else uses the agent or the text.
    let (agent, script) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut SCRIPT)) };
    // SAFETY: the command has ended the text with a zero.
    let value = unsafe { agent.vm.evaluate(&script.text) };
    let outcome = match (value, agent.names.reader()) {
        (None, _) => Outcome::Raised,
        (Some(_), None) => Outcome::Unreadable,
        (Some(value), Some(reader)) => match reader.text(value) {
            // Nothing is allocated meanwhile, so the string is there still.
            Ok(text) => copy(text.address, text.len),
            Err(_) => Outcome::Unreadable,
        },
    };
    script.outcome = outcome as u64;
    Reply::Done
}

/// Copies an answer into the place of the text.
fn copy(at: u64, length: u64) -> Outcome {
    // SAFETY: as in the callers.
    let script = unsafe { &mut *(&raw mut SCRIPT) };
    // The last byte stays zero.
    let place = script.text[..TEXT - 1].get_mut(..length as usize);
    if place.is_none_or(|place| Direct.read(at, place).is_err()) {
        return Outcome::Unreadable;
    }
    script.length = length;
    Outcome::Answered
}

/// Called by a borrowed main thread of a Python.
#[unsafe(no_mangle)]
extern "C" fn enter_python(what: u64) -> u64 {
    if what & HOLDS != 0 {
        // SAFETY: the function reads two words and takes no lock.
        let holds = unsafe { function::<unsafe extern "C" fn() -> i32>(GIL_STATE_CHECK)() };
        let reply = if holds == 0 {
            Reply::Done
        } else {
            Reply::Refused
        };
        CONTROL_PAGE.reply.store(reply as u32, Ordering::Release);
    }
    if what & REGISTER != 0 {
        // SAFETY: the function may be called without Python's lock.
        unsafe {
            let add: unsafe extern "C" fn(extern "C" fn(u64) -> i32, u64) -> i32 =
                function(ADD_PENDING_CALL);
            add(pending, 0);
        }
    }
    if what & LOCK != 0 {
        // A handler of the script's that raises would raise into us.
        let blocked = sys::SignalsBlocked::all();
        // SAFETY: the command has seen that the thread is blocked and does not hold the lock.
        unsafe {
            let ensure: unsafe extern "C" fn() -> i32 = function(GIL_STATE_ENSURE);
            let release: unsafe extern "C" fn(i32) = function(GIL_STATE_RELEASE);
            let state = ensure();
            python(true);
            release(state);
        }
        drop(blocked);
    }
    0
}

/// Called by Python's main thread at a safe point, with the lock. What it raises the program raises there.
extern "C" fn pending(_: u64) -> i32 {
    python(false)
}

/// Does what is requested of a Python, once for each request; -1 = it raised, and that is left for the program unless `alone`.
fn python(alone: bool) -> i32 {
    let asked = CONTROL_PAGE.asked.load(Ordering::Acquire);
    // The number of a request is written behind its words: until then it is that of a request that was answered.
    let request = CONTROL_PAGE.request.load(Ordering::Relaxed);
    let is_snapshot = request == Request::Snapshot as u32;
    if CONTROL_PAGE.state.load(Ordering::Acquire) != State::Open as u32
        || !is_snapshot && request != Request::Evaluate as u32
        || asked == CONTROL_PAGE.answered.load(Ordering::Relaxed)
        // A finalizer runs. The command has us entered again.
        || is_snapshot && snapshot::is_collecting()
    {
        return 0;
    }
    // What is evaluated gives the lock away now and then; while the main thread waits for it the command may have that entered again,
    // or Python makes the call that was asked for before.
    if CONTROL_PAGE.evaluated.swap(asked, Ordering::Relaxed) == asked {
        return 0;
    }
    if is_snapshot {
        answer(asked, snapshot::take(Heap::Python));
        return 0;
    }
    // SAFETY: the lock is held, and this is the request's only evaluation; the command has ended the text with a zero.
    let (outcome, raised) = unsafe { run(asked) };
    if raised && alone {
        // SAFETY: the lock is held.
        unsafe { function::<unsafe extern "C" fn()>(ERR_CLEAR)() };
    }
    if CONTROL_PAGE.asked.load(Ordering::Acquire) != asked {
        // Nobody waits for this answer any more.
        return if raised && !alone { -1 } else { 0 };
    }
    // SAFETY: as above.
    unsafe { (&raw mut SCRIPT.outcome).write(outcome as u64) };
    answer(asked, Reply::Done);
    if raised && !alone { -1 } else { 0 }
}

fn answer(asked: u32, reply: Reply) {
    CONTROL_PAGE.reply.store(reply as u32, Ordering::Relaxed);
    CONTROL_PAGE.answered.store(asked, Ordering::Release);
}

/// The text of a request evaluated in a namespace of its own, and whether an exception is set. The answer is copied to where the text was,
/// unless another request has one there by then.
///
/// # Safety
/// Python's lock is held, at a safe point.
unsafe fn run(asked: u32) -> (Outcome, bool) {
    // SAFETY: the caller's; addresses are those functions', and prototypes Python's.
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
            _ if CONTROL_PAGE.asked.load(Ordering::Acquire) != asked => Outcome::Unreadable,
            at => copy(at, length as u64),
        };
        release(value);
        release(namespace);
        (outcome, at == 0)
    }
}

/// The function of Python's at this place of the table, as what it is.
///
/// # Safety
/// `F` is its prototype.
unsafe fn function<F: Copy>(place: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<u64>()) };
    // SAFETY: the command has written its address; functions are as large as addresses.
    unsafe {
        let address = (&raw const SCRIPT.python[place]).read();
        core::mem::transmute_copy::<u64, F>(&address)
    }
}
