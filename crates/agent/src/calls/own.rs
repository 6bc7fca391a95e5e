//! What is hooked for ourselves: the loader's changes, functions that define functions of a script, and what is said by
//! notices.

use super::{loader, locks, notices};
use routine::Frame;
use wire::calls::want;

/// What a thread waits for, or may wait for when the function returns.
pub const WAITING: u64 =
    want::NOTICES & !(want::LOCKS | want::LOCKS_BY_NUMBER) | want::LOADER | want::DEFINES;

/// Before anything is recorded of the call.
pub fn before(wanted: u64) {
    if wanted & want::LOADER != 0 {
        loader::changed();
    }
}

/// When what is wanted of the call was recorded. Not 0 = its return is wanted.
pub fn at_call(wanted: u64, frame: &Frame) -> u64 {
    let defines = if wanted & want::DEFINES != 0 {
        want::RETURN
    } else {
        0
    };
    locks::at_call(frame, wanted);
    defines | notices::at_call(frame, wanted)
}
