//! Functions of Python's C API, by their places in the table that the command has written ([`wire::script::python`]).

use crate::shared::SCRIPT;

/// Returns the function of Python at this place of the table, with its type.
///
/// # Safety
/// `F` is its prototype.
pub unsafe fn function<F: Copy>(place: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<u64>()) };
    // SAFETY: the command has written the function's address there, and a function pointer is as large as an address.
    unsafe {
        let address = (&raw const SCRIPT.python[place]).read();
        core::mem::transmute_copy::<u64, F>(&address)
    }
}
