//! Libraries that come and go: the loader tells a debugger by calling `r_brk`, an empty function, before and after
//! each change. That function is hooked, and the thread waits in it until the command has hooked what it wants of a
//! new library, before any function of that library has run.

use super::pulse;
use super::session::calls;
use super::wait::Wait;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;

/// Distance of `r_state` in `struct r_debug` (glibc `elf/link.h`); 0 = a change has ended.
const STATE: u64 = 24;

/// The loader says that something changes or has changed.
pub fn changed() {
    // In a program that has just begun it may not be known yet (musl, which calls only when a change has ended).
    if calls().r_debug != 0 {
        // SAFETY: the loader's own record, which is never unmapped; 32 bits.
        let state = unsafe { ((calls().r_debug + STATE) as *const u32).read_volatile() };
        if state != 0 {
            return;
        }
    }
    wait();
}

/// Something has come: waits until the command has looked at it. The wait ends, too, when the gate is closed, when the
/// command's process is gone or silent, and when the time is over.
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
