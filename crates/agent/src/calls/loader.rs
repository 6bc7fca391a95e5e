//! Handles libraries that come and go. The loader informs a debugger by calling `r_brk`, an empty function, before and
//! after each change. That function is hooked, and its thread waits until the command has hooked what it wants of a
//! new library, before any function of that library has run. Used by `call` and `own_hooks`.

use super::pulse;
use super::session::calls;
use super::wait::Wait;
use crate::memory::follow::kept;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;

/// Offset of `r_state` in `struct r_debug` (glibc `elf/link.h`); 0 = no change is under way.
const STATE: u64 = 24;

/// Handles a call of `r_brk`, before or after a change.
pub fn changed() {
    // A program that has just begun may not know the address yet (musl, which calls only after a change).
    if calls().r_debug != 0 {
        // SAFETY: `r_debug` is the address of the loader's own record, which is never unmapped; the word is aligned
        // and of 32 bits.
        let state = unsafe { kept::<u32>(calls().r_debug + STATE).read_volatile() };
        if state != 0 {
            return;
        }
    }
    wait();
}

/// Waits until the command has looked at new libraries. The wait also ends when the gate is closed, when the command's
/// process is gone or silent, and when the time is over.
pub fn wait() {
    let number = CONTROL_PAGE.loads.fetch_add(1, Ordering::AcqRel) + 1;
    let mut wait = Wait::new(calls().patience);
    while CONTROL_PAGE.calls.load(Ordering::Relaxed) != 0
        && (CONTROL_PAGE
            .loads_seen
            .load(Ordering::Acquire)
            .wrapping_sub(number) as i32)
            < 0
        && pulse::lives()
        && wait.goes_on()
    {}
}
