//! Functions of a VM, by their places in the table that the command has written ([`wire::Script::functions`]). Used by
//! `php::births::bailout`, `php::births::handlers`, `python::births::allocator` and others.

use crate::shared::SCRIPT;

/// Returns the function of the VM at this place of the table, with its type.
///
/// # Safety
/// `F` is its prototype.
pub unsafe fn function<F: Copy>(place: usize) -> F {
    // SAFETY: the command has written the function's address there.
    unsafe { at((&raw const SCRIPT.functions[place]).read()) }
}

/// Returns the function at this address, with its type.
///
/// # Safety
/// `F` is the prototype of a function that is there.
#[inline(always)]
pub unsafe fn at<F: Copy>(address: u64) -> F {
    const { assert!(size_of::<F>() == size_of::<u64>()) };
    // SAFETY: as the caller says; a function pointer is as large as an address.
    unsafe { core::mem::transmute_copy::<u64, F>(&address) }
}
