//! Libraries that come and go: the loader tells a debugger by calling `r_brk`, an empty function, before and after
//! each change. That function is hooked, and the thread waits in it until the command has hooked what it wants of a
//! new library, before any function of that library has run.

use super::pulse;
use crate::sys;
use core::sync::atomic::Ordering;
use wire::Board;
use wire::calls::Calls;

/// Distance of `r_state` in `struct r_debug` (glibc `elf/link.h`); 0 = a change has ended.
const STATE: u64 = 24;

/// Between two looks.
const PAUSE: u64 = 50_000;

/// The loader says that something changes or has changed.
pub fn changed(calls: &Calls, board: &Board) {
    // In a program that has just begun it may not be known yet (musl, which calls only when a change has ended).
    if calls.r_debug != 0 {
        // SAFETY: the loader's own record, which is never unmapped; 32 bits.
        let state = unsafe { ((calls.r_debug + STATE) as *const u32).read_volatile() };
        if state != 0 {
            return;
        }
    }
    wait(calls, board);
}

/// Something has come: waits until the command has looked at it.
pub fn wait(calls: &Calls, board: &Board) {
    let number = board.loads.fetch_add(1, Ordering::AcqRel) + 1;
    let began = sys::ticks();
    while board.calls.load(Ordering::Relaxed) != 0
        && (board
            .loads_seen
            .load(Ordering::Acquire)
            .wrapping_sub(number) as i32)
            < 0
        && sys::ticks().wrapping_sub(began) < calls.patience
        && pulse::lives(board)
    {
        sys::pause(PAUSE);
    }
}
