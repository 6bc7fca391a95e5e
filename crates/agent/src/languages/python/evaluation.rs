//! Makes the VM evaluate the command's text ([`SCRIPT`]), and puts an exception off that cannot be raised at once. Used
//! by `jobs`.

use crate::languages::functions::function;
use crate::scripts::copy;
use crate::shared::SCRIPT;
use vm::python::api::{
    ADD_PENDING_CALL, AS_UTF8, DEC_REF, DICT_NEW, ERR_CLEAR, ERR_FETCH, ERR_RESTORE, RUN_STRING,
};
use wire::script::Outcome;

/// `Py_eval_input` (`Include/compile.h`): the text is one expression.
const EXPRESSION: i32 = 258;

/// An exception that is raised in the program at its next safe point: type, value and traceback.
static mut LATER: [u64; 3] = [0; 3];

/// Puts the current exception off to the next safe point of the main thread, because the code that the thread returns to from here cannot
/// be told of it.
///
/// # Safety
/// Python's lock is held, and the lock of its queue of pending calls is not held by this thread.
pub unsafe fn raise_later() {
    // SAFETY: the command has written the functions' addresses; the caller holds Python's lock, under which alone `LATER` is used, and
    // does not hold the lock that `Py_AddPendingCall` waits for.
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
pub unsafe fn run() -> (Outcome, bool) {
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
