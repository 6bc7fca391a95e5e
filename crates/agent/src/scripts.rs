//! The text that a VM evaluates for the command ([`SCRIPT`]): the string that results is copied to where the text was.
//! Used by `languages::python::evaluation` and `languages::ruby::evaluation`.

use crate::memory::direct::Direct;
use crate::shared::SCRIPT;
use vm::Memory;
use wire::script::{Outcome, TEXT};

/// Copies an answer to where the text was.
///
/// # Safety
/// The caller holds the VM's lock, under which alone the text is used, and does not use the text itself meanwhile.
pub unsafe fn copy(at: u64, length: u64) -> Outcome {
    // SAFETY: the caller says that nobody else uses the text.
    let script = unsafe { &mut *(&raw mut SCRIPT) };
    // The last byte stays zero.
    let place = script.text[..TEXT - 1].get_mut(..length as usize);
    if place.is_none_or(|place| Direct.read(at, place).is_err()) {
        return Outcome::Unreadable;
    }
    script.length = length;
    Outcome::Answered
}
