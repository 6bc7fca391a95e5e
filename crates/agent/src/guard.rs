//! A panic in the agent ends the agent's work, not the guest. Used by `languages::php::births::counting`,
//! `births::living`, `languages::python::births::census` and others.
//!
//! The panic handler goes back to the caller of the agent's Rust code ([`routine::escape`]). As long as nothing panics
//! this costs nothing, also in hooked calls.
//!
//! | called by | gets | the session |
//! |---|---|---|
//! | [`guarded`] | `u64::MAX` | `mem`'s agent counts as [`broken`] and leaves |
//! | the routine | 0: the original runs, with the guest's registers | the gate is closed, `Calls::panics` says so |
//! | the VM (hook, job, end procedure) | 0 | `mem`'s agent goes quiet at once |
//!
//! A guarded function calls into the VM only through a callback that is guarded itself, and none of the frames that are
//! skipped owns anything that must be dropped. A record that was being written is never completed; the reader skips it by
//! its length, as one that a longjmp left.

use crate::calls::session::close_after_panic;
use crate::memory::bound::Kept;
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

/// Forgets a panic when a session begins and nothing of the last one's books is left.
pub fn begin_anew() {
    BROKEN.store(false, Ordering::Relaxed);
    Kept::close();
}

/// Calls `function(argument)`; returns `u64::MAX` if it panicked.
///
/// # Safety
/// `function` owns nothing that must be dropped, and calls no code whose frames must not be skipped.
#[unsafe(naked)]
pub unsafe extern "C" fn guarded(function: extern "C" fn(u64) -> u64, argument: u64) -> u64 {
    naked_asm!(
        // Aligns the stack to 16 bytes.
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
    /// The address at which [`guarded`] goes on when its function has returned.
    static guarded_returns: u8;
    /// The first of the routine's functions that call the agent (`routine::routines`).
    static trampoline_call_through: u8;
    /// The first function behind them.
    static trampoline_find_fde: u8;
}

/// Returns whether `address` is in the routine's code that calls `enter`, `leave` and `probe`. `routine::routines` emits
/// those functions before `trampoline_find_fde`.
fn is_routine(address: u64) -> bool {
    let [from, to] = [
        &raw const trampoline_call_through,
        &raw const trampoline_find_fde,
    ];
    (from.addr() as u64..to.addr() as u64).contains(&address)
}

/// Sets `registers` to where execution goes on after a panic, and returns the value that the call there gives. Closes the
/// session that panicked.
extern "C" fn land(registers: &mut Registers) -> u64 {
    let guarded = (&raw const guarded_returns).addr() as u64;
    if leave_image(registers, |address| address == guarded).is_none() {
        close_all();
        // There is no caller to go back to, so this thread of the guest is lost. It sleeps, and the others go on.
        loop {
            sys::pause(1_000_000_000);
        }
    }
    if registers.rip == guarded {
        BROKEN.store(true, Ordering::Relaxed);
        return u64::MAX;
    }
    if is_routine(registers.rip) {
        close_after_panic();
    } else {
        close_all();
    }
    0
}

fn close_all() {
    close_after_panic();
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
    // SAFETY: `land` sets the registers of the frame that called the agent's code; the frames below it may be skipped for
    // the reasons in the module's documentation.
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
