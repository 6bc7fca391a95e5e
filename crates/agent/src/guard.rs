//! A panic in the agent ends the agent's work, not the guest.
//!
//! The panic handler goes back to whoever called the agent's Rust code ([`routine::escape`]): that costs nothing
//! while nothing panics, also on the way of every hooked call.
//!
//! | called by | gets | the session |
//! |---|---|---|
//! | [`guarded`] | `u64::MAX` | `mem`'s agent counts as [`broken`] and leaves |
//! | the routine | 0: the original runs, with the guest's registers | the gate is closed, `Calls::panics` says so |
//! | the VM (hook, job, end procedure) | 0 | `mem`'s agent goes quiet at once |
//!
//! A guarded function never calls into the VM except through a callback that is guarded itself, and none of the
//! frames that are skipped owns anything that needs dropping. A record that was being written is never whole; the reader
//! goes past it by its length, as past one that a longjmp left.

use crate::calls;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, Ordering};
use routine::escape::{Registers, escape, leave_image};
use wire::{Farewell, State};

/// Set by a panic in `mem`'s work, or outside of any known entry. Nothing is counted until the next session begins.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether `mem`'s agent has panicked since [`begin_anew`].
pub fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Forgets a panic. For a session that begins, when nothing of the old one's books is left.
pub fn begin_anew() {
    BROKEN.store(false, Ordering::Relaxed);
}

/// Calls `function(argument)`; `u64::MAX` if it panicked.
///
/// # Safety
/// `function` keeps no resource and calls into nobody's code that would mind its frames being skipped.
#[unsafe(naked)]
pub unsafe extern "C" fn guarded(function: extern "C" fn(u64) -> u64, argument: u64) -> u64 {
    naked_asm!(
        // Aligns the stack to 16.
        "push rax",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        ".globl guarded_returns",
        ".hidden guarded_returns",
        "guarded_returns:",
        "pop rcx",
        "ret",
    )
}

unsafe extern "C" {
    /// Where [`guarded`] goes on when its function has returned.
    static guarded_returns: u8;
}

/// Sets `registers` to where execution goes on after a panic, and returns the value that the call there gives. Closes the
/// session that panicked.
extern "C" fn land(registers: &mut Registers) -> u64 {
    let guarded = (&raw const guarded_returns).addr() as u64;
    if leave_image(registers, |address| address == guarded).is_none() {
        close_all();
        // Nowhere to go back to: this thread of the guest is lost. It sleeps, so that the others go on.
        loop {
            sys::pause(1_000_000_000);
        }
    }
    if registers.rip == guarded {
        BROKEN.store(true, Ordering::Relaxed);
        return u64::MAX;
    }
    if calls::is_routine(registers.rip) {
        calls::session::close_after_panic();
    } else {
        close_all();
    }
    0
}

fn close_all() {
    calls::session::close_after_panic();
    BROKEN.store(true, Ordering::Relaxed);
    CONTROL_PAGE
        .deserted
        .store(Farewell::Broken as u32, Ordering::Relaxed);
    CONTROL_PAGE
        .state
        .store(State::Quiet as u32, Ordering::Relaxed);
}

#[cfg_attr(panic = "abort", panic_handler)]
#[cfg_attr(
    panic = "unwind",
    expect(
        dead_code,
        reason = "checked, and not called: the standard library has its own"
    )
)]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: `land` leaves the registers of the frame that called the agent's code; the module's text says why those
    // below may be left.
    unsafe { escape(land) }
}

// Rust's prebuilt `core` names the unwinder's entry although nothing here unwinds.
#[cfg(panic = "abort")]
core::arch::global_asm!(
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
);
