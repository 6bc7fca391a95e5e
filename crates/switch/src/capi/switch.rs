//! The switch behind a C function call.
//!
//! [`crate::arch`] lets the compiler decide what must be saved; a C compiler knows only the ABI, so
//! here all six callee-saved registers travel, and the call's own return address is where to go
//! on. The idea is the same: the link holds the stack pointer of the side that does not run, and
//! both directions run the same code. The pictures of `arch/x86_64.rs` apply, with this image in
//! the place of the three words:
//!
//! ```text
//!      sp+56  return address of lancet_resume() or lancet_suspend(); at first `start`
//!      sp+48  rbp          at first &Fiber.frame_pointer
//!      sp+40  rbx
//!      sp+32  r12
//!      sp+24  r13
//!      sp+16  r14
//!      sp+8   r15
//!  sp ─►      mxcsr, x87 control word: stored and loaded only on request
//! ```
//!
//! A switch returns straight into the caller of the function that the other side is in, with
//! `pop; jmp` (see [`crate::arch`]). Nothing is asked on arrival: a cancellation and an exception
//! arrive by a jump to [`unwind_here`] and [`raise_here`] with the return address still in place,
//! exactly as if the code that stands still had called these.
//!
//! `start`, the outermost frame, has unwind rules that lead into the resumer (`rbp` is
//! `&Fiber.frame_pointer`; the resumer's image is where the link points) and a personality that stops
//! every exception there. `Fiber.frame_pointer` and the word after it are a frame record for walkers
//! of frame pointers: the resumer's `rbp` and return address.
//!
//! Both hold at every instruction but one: between `mov [link], rsp` and `mov rsp, rax` the link is
//! the running side's own.

use core::arch::naked_asm;
use core::mem::offset_of;

use super::fiber::{Fiber, RUNNING, SUSPENDED, entered_wrongly};
use super::unwind::{personality, stop, unhandled};
use crate::arch::Base;

unsafe extern "C" {
    fn _Unwind_ForcedUnwind();
    fn _Unwind_RaiseException();
}

/// Bytes of the image.
pub const IMAGE: usize = 64;

/// What a first image has for a return address: see [`start`].
pub fn first_address() -> usize {
    start as *const () as usize + 1
}

// Offsets from the pointer C has, the address of `Fiber::base`.
const LINK: isize = offset_of!(Base, link) as isize;
const STATE: isize = offset_of!(Base, state) as isize;
const FP: isize = offset_of!(Base, fp) as isize;
const BASE: isize = offset_of!(Fiber, base) as isize;
const FRAME: isize = offset_of!(Fiber, frame_pointer) as isize - BASE;
const ENTRY: isize = offset_of!(Fiber, entry) as isize - BASE;
const ARGUMENT: isize = offset_of!(Fiber, argument) as isize - BASE;
const EXCEPTION: isize = offset_of!(Fiber, exception) as isize - BASE;

/// Statuses of [`Switched`]; 1, finished, is in `start` only.
pub mod status {
    /// The fiber suspended itself.
    pub const SUSPENDED: isize = 0;
    /// It was cancelled.
    pub const CANCELLED: isize = 2;
}

/// What comes out of a resume, in `rax` and `rdx`: `struct lancet_result`.
#[repr(C)]
pub struct Switched {
    /// What was passed to suspend, or returned.
    pub value: *mut u8,
    /// One of [`status`], or a negative error.
    pub status: isize,
}

/// Runs `fiber` until it suspends itself or ends.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn lancet_resume(fiber: *mut Base, value: *mut u8) -> Switched {
    naked_asm!(
        ".cfi_startproc",
        "cmp dword ptr [rdi + {state}], {suspended}",
        "jne 3f",
        "mov dword ptr [rdi + {state}], {running}",
        "mov rax, [rsp]",
        "mov [rdi + {frame}], rbp",
        "mov [rdi + {frame} + 8], rax",
        ".cfi_remember_state",
        hook!("lancet_hook_before_resume"),
        save!(),
        exchange!(),
        load!(),
        hook!("lancet_hook_in_fiber"),
        "mov rax, rsi",
        "xor edx, edx",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, rcx",
        "jmp rcx",
        ".cfi_restore_state",
        "3:",
        "jmp {wrongly}",
        ".cfi_endproc",
        state = const STATE,
        suspended = const SUSPENDED,
        running = const RUNNING,
        frame = const FRAME,
        fp = const FP,
        link = const LINK,
        wrongly = sym entered_wrongly,
    )
}

/// Goes back to the resumer with `value`; returns what the next resume passes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn lancet_suspend(fiber: *mut Base, value: *mut u8) -> *mut u8 {
    naked_asm!(
        ".cfi_startproc",
        "cmp dword ptr [rdi + {state}], {running}",
        "jne 3f",
        "mov dword ptr [rdi + {state}], {suspended}",
        ".cfi_remember_state",
        hook!("lancet_hook_before_suspend"),
        save!(),
        exchange!(),
        load!(),
        hook!("lancet_hook_in_resumer"),
        "mov rax, rsi",
        "xor edx, edx",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, rcx",
        "jmp rcx",
        ".cfi_restore_state",
        "3:",
        "jmp {wrongly}",
        ".cfi_endproc",
        state = const STATE,
        suspended = const SUSPENDED,
        running = const RUNNING,
        fp = const FP,
        link = const LINK,
        wrongly = sym super::fiber::suspended_wrongly,
    )
}

/// As [`lancet_resume`], but the fiber finds itself in [`unwind_here`]. The caller has checked
/// that it is suspended.
#[unsafe(naked)]
pub extern "C-unwind" fn resume_to_unwind(fiber: *mut Base) -> Switched {
    naked_asm!(
        ".cfi_startproc",
        "mov dword ptr [rdi + {state}], {running}",
        "mov rax, [rsp]",
        "mov [rdi + {frame}], rbp",
        "mov [rdi + {frame} + 8], rax",
        hook!("lancet_hook_before_resume"),
        save!(),
        exchange!(),
        load!(),
        hook!("lancet_hook_in_fiber"),
        "jmp {unwind}",
        ".cfi_endproc",
        state = const STATE,
        running = const RUNNING,
        frame = const FRAME,
        fp = const FP,
        link = const LINK,
        unwind = sym unwind_here,
    )
}

/// First and outermost frame of a fiber. In: `rdi` the fiber, `rax` the first value, `rbp`
/// = `&Fiber.frame_pointer`.
#[unsafe(naked)]
pub unsafe extern "C" fn start() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        ".cfi_signal_frame",
        // DW_CFA_def_cfa_expression, 7 bytes: DW_OP_breg6 (rbp) + (link - frame_pointer) in two
        // bytes of signed LEB128, DW_OP_deref, DW_OP_plus_uconst 64 (IMAGE), DW_OP_nop
        ".cfi_escape 0x0f, 7, 0x76, {low}, {high}, 0x06, 0x23, 64, 0x96",
        ".cfi_offset rip, -8",
        ".cfi_offset rbp, -16",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        // The image leads behind this instruction, as a return address does: unwinders look up the
        // byte before.
        "nop",
        // Says that the fiber has started.
        "mov [rdi + {data}], rsp",
        "mov rsi, rax",
        "mov rdx, [rdi + {argument}]",
        "call [rdi + {entry}]",
        "lea rdi, [rbp - ({frame})]",
        "mov rsi, rax",
        "mov edx, 1",
        // As at a function's entry.
        "sub rsp, 8",
        "jmp {leave}",
        ".cfi_endproc",
        personality = sym personality,
        low = const ((LINK - FRAME) & 0x7f) | 0x80,
        high = const ((LINK - FRAME) >> 7) & 0x7f,
        data = const offset_of!(Base, data),
        argument = const ARGUMENT,
        entry = const ENTRY,
        frame = const FRAME,
        leave = sym leave,
    )
}

/// The last switch: `rdi` the fiber, `rsi` the value, `rdx` the status.
#[unsafe(naked)]
pub unsafe extern "C" fn leave(fiber: *mut Base, value: *mut u8, status: isize) -> ! {
    naked_asm!(
        ".cfi_startproc",
        // The frame is the resumer's image from the first instruction on: DW_CFA_def_cfa_expression,
        // 5 bytes: DW_OP_breg5 (rdi) + link, DW_OP_deref, DW_OP_plus_uconst 64
        image_rules!(),
        ".cfi_escape 0x0f, 5, 0x75, {link}, 0x06, 0x23, 64",
        hook!("lancet_hook_before_end"),
        "mov dword ptr [rdi + {state}], {done}",
        "mov rsp, [rdi + {link}]",
        ".cfi_def_cfa rsp, 64",
        load!(),
        hook!("lancet_hook_in_resumer"),
        "mov rax, rsi",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, rcx",
        "jmp rcx",
        ".cfi_endproc",
        state = const STATE,
        done = const super::fiber::DONE,
        fp = const FP,
        link = const LINK,
    )
}

/// Where [`personality`] lands an exception: `rax` the exception, `rbp` = `&Fiber.frame_pointer`.
/// Leaves for good and raises it again in the resumer.
#[unsafe(naked)]
pub unsafe extern "C" fn landing() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "lea rdi, [rbp - ({frame})]",
        "mov rsi, rax",
        // As at a function's entry, for the hook; the stack is left for good.
        "sub rsp, 8",
        hook!("lancet_hook_before_end"),
        "mov dword ptr [rdi + {state}], {done}",
        "mov rsp, [rdi + {link}]",
        image_rules!(),
        ".cfi_offset rip, -8",
        load!(),
        hook!("lancet_hook_in_resumer"),
        "jmp {raise}",
        ".cfi_endproc",
        frame = const FRAME,
        state = const STATE,
        done = const super::fiber::DONE,
        fp = const FP,
        link = const LINK,
        raise = sym raise_here,
    )
}

/// Raises the exception in `rsi` as if the code at the return address had called this.
#[unsafe(naked)]
unsafe extern "C" fn raise_here() -> ! {
    naked_asm!(
        ".cfi_startproc",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsi",
        "call {raise}",
        // Only when nobody on the resumer's stack catches it.
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {unhandled}",
        "ud2",
        ".cfi_endproc",
        raise = sym _Unwind_RaiseException,
        unhandled = sym unhandled,
    )
}

/// Unwinds the stack of the fiber in `rdi` as if the code at the return address had called this.
#[unsafe(naked)]
unsafe extern "C" fn unwind_here() -> ! {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rdx, rdi",
        "lea rdi, [rdi + {exception}]",
        "lea rsi, [rip + {stop}]",
        "call {forced}",
        // Only when the stack cannot be walked to its end.
        "xor edi, edi",
        "call {unhandled}",
        "ud2",
        ".cfi_endproc",
        exception = const EXCEPTION,
        stop = sym stop,
        forced = sym _Unwind_ForcedUnwind,
        unhandled = sym unhandled,
    )
}
