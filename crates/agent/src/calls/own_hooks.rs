//! Handles functions that are hooked for ourselves: the loader's changes, functions that define functions of a script,
//! and events that become notices. Used by `call`.

use super::session::calls;
use super::{loader, locks, notices};
use core::sync::atomic::Ordering;
use routine::Frame;
use wire::calls::want;

/// The bits of `want` for which a thread waits, at the call or at the return.
pub const WAITING: u64 =
    want::NOTICES & !(want::LOCKS | want::LOCKS_BY_NUMBER) | want::LOADER | want::DEFINES;

/// Runs before anything is recorded of the call.
pub fn before(wanted: u64) {
    if wanted & want::LOADER != 0 {
        loader::changed();
    }
    if wanted & want::ENDS_INTERPRETER != 0 {
        // Its memory is given back after this, while the thread still points to it: what is allocated from then on, by a library's
        // destructor for instance, would follow pointers in what others have been given.
        calls().wary.store(1, Ordering::Relaxed);
    }
}

/// Runs after the call was recorded. A result other than 0 means that its return is wanted.
pub fn at_call(wanted: u64, frame: &Frame) -> u64 {
    let defines = if wanted & want::DEFINES != 0 {
        want::RETURN
    } else {
        0
    };
    locks::at_call(frame, wanted);
    defines | notices::at_call(frame, wanted)
}
