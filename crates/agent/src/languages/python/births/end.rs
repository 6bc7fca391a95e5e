//! The count at the end of a program that lancet has started: what `atexit` calls last, when the program's threads have ended and its own
//! exit functions have run, and before the VM is torn down.
//!
//! What `atexit` knows cannot be taken out of it by address, so the function stays there when lancet leaves, and does nothing then.

use super::census;
use crate::languages::functions::function;
use crate::languages::python::snapshot::reader;
use crate::shared::{CONFIG, CONTROL_PAGE};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vm::python::api::{CALL, DEC_REF, ERR_CLEAR, GET_ATTRIBUTE, IMPORT, INC_REF, NEW_FUNCTION};
use wire::State;

/// `PyMethodDef` (`Include/methodobject.h`): name, function, flags (an int) and documentation.
#[repr(C)]
struct Definition([AtomicU64; 4]);

/// `METH_NOARGS`.
const NO_ARGUMENTS: u64 = 4;

static DEFINITION: Definition = Definition([const { AtomicU64::new(0) }; 4]);
/// Whether `atexit` knows the function.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Has `atexit` call us. Where that fails, the program's end is not counted.
///
/// # Safety
/// The VM's lock is held, at a safe point, and the command has written the functions' addresses.
pub unsafe fn register() {
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    let words = [
        c"count".as_ptr().addr() as u64,
        at_end as *const () as u64,
        NO_ARGUMENTS,
        0,
    ];
    for (place, word) in DEFINITION.0.iter().zip(words) {
        place.store(word, Ordering::Relaxed);
    }
    // SAFETY: as the caller says; the prototypes are the VM's, the texts end with a zero, and the definition is a static of the agent's
    // image, which is never unmapped.
    unsafe {
        let import: unsafe extern "C" fn(*const u8) -> u64 = function(IMPORT);
        let attribute: unsafe extern "C" fn(u64, *const u8) -> u64 = function(GET_ATTRIBUTE);
        let make: unsafe extern "C" fn(*const Definition, u64, u64) -> u64 = function(NEW_FUNCTION);
        let call: unsafe extern "C" fn(u64, ...) -> u64 = function(CALL);
        let release: unsafe extern "C" fn(u64) = function(DEC_REF);
        let clear: unsafe extern "C" fn() = function(ERR_CLEAR);
        let module = import(c"atexit".as_ptr().cast());
        let register = match module {
            0 => 0,
            module => attribute(module, c"register".as_ptr().cast()),
        };
        let counts = match register {
            0 => 0,
            _ => make(&raw const DEFINITION, 0, 0),
        };
        let done = match counts {
            0 => 0,
            _ => call(register, counts, 0u64),
        };
        if done == 0 {
            clear();
        }
        for object in [module, register, counts, done] {
            // It takes none, too.
            release(object);
        }
    }
}

/// `PyCFunction`: called with the VM's lock; returns `None`.
unsafe extern "C" fn at_end(_: u64, _: u64) -> u64 {
    let is_open = CONTROL_PAGE.state.load(Ordering::Relaxed) == State::Open as u32;
    if is_open && CONTROL_PAGE.hooked.load(Ordering::Relaxed) != 0 {
        // SAFETY: the command writes `CONFIG` only while no thread runs here.
        let argument = unsafe { (*(&raw const CONFIG)).end_argument };
        let reply = census::take(u64::from(argument));
        CONTROL_PAGE.ended.store(reply as u32, Ordering::Release);
    }
    let none = reader().map_or(0, |python| python.facts().none());
    if none != 0 {
        // SAFETY: the VM's lock is held, and the command has written the function's address.
        unsafe {
            let keep: unsafe extern "C" fn(u64) = function(INC_REF);
            keep(none);
        }
    }
    none
}
