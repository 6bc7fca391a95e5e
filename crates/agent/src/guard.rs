//! A panic in the agent ends the agent's work, not the guest.
//!
//! The agent's slow paths run inside [`guarded`], which notes where the stack stands; the panic
//! handler goes back there. That skips frames of the agent only, because a guarded function never
//! calls into the VM except through a callback that is guarded itself, and none of our frames owns
//! anything that needs dropping. The agent then counts as broken and goes quiet.
//!
//! ```text
//!   caller's frame
//!   return address
//!   rbp rbx r12 r13 r14 r15     callee-saved (SysV ABI figure 3.4)
//!   the anchor before           guarded calls nest
//!   ◄── anchor
//!   function's frames …         a panic here: rsp = anchor, pop everything, return -1
//! ```

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stack pointer of the innermost guarded call; one is enough, because the VM's lock or the agent's
/// own admits one thread at a time.
static ANCHOR: AtomicU64 = AtomicU64::new(0);

/// Set by a panic; nothing is counted any more.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether a panic has happened.
pub fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Calls `function(argument)`; `u64::MAX` if it panicked.
///
/// # Safety
/// `function` keeps no resource and calls into nobody's code that would mind its frames being skipped.
#[unsafe(naked)]
pub unsafe extern "C" fn guarded(function: extern "C" fn(u64) -> u64, argument: u64) -> u64 {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push [rip + {anchor}]",
        "mov [rip + {anchor}], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        // Return address and seven pushes: the stack is aligned to 16 again.
        "call rax",
        "pop [rip + {anchor}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        anchor = sym ANCHOR,
    )
}

/// Goes back to the innermost [`guarded`] call and makes it return -1.
///
/// # Safety
/// There is one.
#[unsafe(naked)]
unsafe extern "C" fn escape() -> ! {
    naked_asm!(
        "mov rsp, [rip + {anchor}]",
        "mov rax, -1",
        "pop [rip + {anchor}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        anchor = sym ANCHOR,
    )
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    BROKEN.store(true, Ordering::Relaxed);
    if ANCHOR.load(Ordering::Relaxed) != 0 {
        // SAFETY: a non-zero anchor is the stack pointer of a guarded call that has not returned.
        unsafe { escape() }
    }
    // Only the few lines between a hook's entry and its guard are not covered, and none of them can
    // panic.
    loop {
        core::hint::spin_loop();
    }
}

// Rust's prebuilt `core` names the unwinder's entry although nothing here unwinds.
core::arch::global_asm!(
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
);
