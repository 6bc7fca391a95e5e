//! The switch behind a C function call.
//!
//! [`crate::arch`] lets the compiler decide what must be saved; a C compiler knows only the ABI, so
//! here all six callee-saved registers travel, and the call's own return address is where to go
//! on. The idea is the same: the link holds the stack pointer of the side that does not run, and
//! both directions run the same code. The pictures of `arch/x86_64.rs` apply, with this image in
//! the place of the three words:
//!
//! ```text
//!            return address of lancet_resume() or lancet_suspend(); at first `start`
//!  link ─►   rbp          at first &Base.link
//!  link-8    rbx
//!  link-16   r12
//!  link-24   r13
//!  link-32   r14
//!  link-40   r15
//! ```
//!
//! The call has put the return address there, the rest is written below `rsp`, into the red zone. With
//! the link and the state that is nine stores, and the number of stores is what a switch costs (one a
//! cycle: 0.27 ns each on the machine of docs/switch.md).
//!
//! A switch returns straight into the caller of the function that the other side is in, with
//! `pop; jmp` (see [`crate::arch`]). Nothing is asked on arrival: a cancellation and an exception
//! arrive by a jump to [`unwind_here`] and [`raise_here`] with the return address still in place,
//! exactly as if the code that stands still had called these. Nor is anything but one word asked on
//! departure: control words that travel make it another value, and have routines of their own.
//!
//! `start`, the outermost frame, has unwind rules that lead into the resumer (`rbp` is `&Base.link`, and
//! the link points to the resumer's image) and a personality that stops every exception there. For
//! walkers of frame pointers, the link and the word after it are a frame record, and so are the
//! highest two words of every image.
//!
//! Both hold at every instruction but one: between the exchange of the link and that of `rsp` the
//! link is the running side's own.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::ptr;

use super::fiber::{DONE, Fiber, KEEPS_FP, RUNNING, SUSPENDED, misuse, state};
use super::options::code;
use super::unwind::{personality, stop, unhandled};
use crate::arch::Base;
use crate::fp::{ControlWords, FLAGS};

unsafe extern "C" {
    fn _Unwind_ForcedUnwind();
    fn _Unwind_RaiseException();
}

/// Bytes of the image, return address included.
pub const IMAGE: usize = 56;

/// Returns the return address in the first image: see [`start`].
pub fn first_address() -> usize {
    start as *const () as usize + 1
}

// Offsets from the pointer C has, the address of `Fiber::base`.
const LINK: isize = offset_of!(Base, link) as isize;
const STATE: isize = offset_of!(Base, state) as isize;
const BASE: isize = offset_of!(Fiber, base) as isize;
const RESUMERS: isize = offset_of!(Fiber, resumers_words) as isize - BASE;
const FIBERS: isize = offset_of!(Fiber, fibers_words) as isize - BASE;
const ENTRY: isize = offset_of!(Fiber, entry) as isize - BASE;
const ARGUMENT: isize = offset_of!(Fiber, argument) as isize - BASE;
const EXCEPTION: isize = offset_of!(Fiber, exception) as isize - BASE;

/// The assembly of this file relies on it: `rbp` = `&Base.link` is the fiber, and the x87 word is 4 bytes behind mxcsr.
const _: () = assert!(
    offset_of!(Base, link) == 0
        && offset_of!(ControlWords, mxcsr) == 0
        && offset_of!(ControlWords, x87) == 4
);

/// Statuses of [`Switched`] (`LANCET_…` in `lancet_switch.h`); 1, finished, is in `start` only.
pub mod status {
    /// The fiber suspended itself.
    pub const SUSPENDED: isize = 0;
    /// The fiber was resumed in a destructor of its cancellation, and was unwound to its end.
    pub const CANCELLED: isize = 2;
}

/// The result of a resume, in `rax` and `rdx`: `struct lancet_result`.
#[repr(C)]
pub struct Switched {
    /// The value that was passed to suspend, or returned.
    pub value: *mut u8,
    /// One of [`status`], or a negative error.
    pub status: isize,
}

/// A routine that leaves in state `$from`, sets it to `$to` and arrives with the value and status 0. In
/// any other state it goes to `$else`. `$over` is the switch.
macro_rules! routine {
    ($from:expr => $to:expr, else $else:path, $over:expr $(, $place:ident = $offset:expr)*) => {
        naked_asm!(
            ".cfi_startproc",
            "cmp dword ptr [rdi + {state}], {from}",
            "jne {other}",
            "mov dword ptr [rdi + {state}], {to}",
            $over,
            "mov rax, rsi",
            "xor edx, edx",
            jump_back!(),
            ".cfi_endproc",
            state = const STATE,
            from = const $from,
            to = const $to,
            other = sym $else,
            link = const LINK,
            $($place = const $offset,)*
        )
    };
}

/// The same for a fiber whose control words travel.
macro_rules! routine_with_words {
    ($from:expr => $to:expr, else $else:path, $over:expr) => {
        routine!(
            $from | KEEPS_FP => $to | KEEPS_FP, else $else, $over,
            resumers = RESUMERS, fibers = FIBERS, flags = FLAGS
        )
    };
}

/// The switch into a fiber, and that out of it.
macro_rules! into_fiber {
    ($words:expr) => {
        switch_over!("lancet_hook_before_resume", $words, "lancet_hook_in_fiber")
    };
}
macro_rules! out_of_fiber {
    ($words:expr) => {
        switch_over!(
            "lancet_hook_before_suspend",
            $words,
            "lancet_hook_in_resumer"
        )
    };
}

/// Runs `fiber` until it suspends itself or ends.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn lancet_resume(fiber: *mut Base, value: *mut u8) -> Switched {
    routine!(SUSPENDED => RUNNING, else resume_with_words, into_fiber!(""))
}

/// Goes back to the resumer with `value`; returns what the next resume passes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn lancet_suspend(fiber: *mut Base, value: *mut u8) -> *mut u8 {
    routine!(RUNNING => SUSPENDED, else suspend_with_words, out_of_fiber!(""))
}

/// [`lancet_resume`] for a fiber whose control words travel.
#[unsafe(naked)]
extern "C-unwind" fn resume_with_words(fiber: *mut Base, value: *mut u8) -> Switched {
    routine_with_words!(
        SUSPENDED => RUNNING, else entered_wrongly,
        into_fiber!(exchange_words!("resumers", "fibers"))
    )
}

/// [`lancet_suspend`] for a fiber whose control words travel.
#[unsafe(naked)]
extern "C-unwind" fn suspend_with_words(fiber: *mut Base, value: *mut u8) -> *mut u8 {
    routine_with_words!(
        RUNNING => SUSPENDED, else suspended_wrongly,
        out_of_fiber!(exchange_words!("fibers", "resumers"))
    )
}

/// As [`lancet_resume`], but the fiber finds itself in [`unwind_here`]. The caller has checked
/// that it is suspended.
#[unsafe(naked)]
pub extern "C-unwind" fn resume_to_unwind(fiber: *mut Base) -> Switched {
    naked_asm!(
        ".cfi_startproc",
        "add dword ptr [rdi + {state}], {step}",
        into_fiber!(concat!(
            "test byte ptr [rdi + {state}], {keeps}\nje 5f\n",
            exchange_words!("resumers", "fibers")
        )),
        "jmp {unwind}",
        ".cfi_endproc",
        state = const STATE,
        step = const RUNNING - SUSPENDED,
        keeps = const KEEPS_FP,
        resumers = const RESUMERS,
        fibers = const FIBERS,
        flags = const FLAGS,
        link = const LINK,
        unwind = sym unwind_here,
    )
}

/// First and outermost frame of a fiber. In: `rdi` the fiber, `rax` the first value, `rbp`
/// = `&Base.link`.
#[unsafe(naked)]
pub unsafe extern "C" fn start() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        ".cfi_signal_frame",
        // DW_CFA_def_cfa_expression, 5 bytes: DW_OP_breg6 (rbp) + link, DW_OP_deref,
        // DW_OP_plus_uconst 16
        ".cfi_escape 0x0f, 5, 0x76, {link}, 0x06, 0x23, 16",
        image_rules!(),
        // The image leads behind this instruction, as a return address does: unwinders look up the
        // byte before.
        "nop",
        // Says that the fiber has started.
        "mov [rdi + {data}], rsp",
        "mov rsi, rax",
        "mov rdx, [rdi + {argument}]",
        "call [rdi + {entry}]",
        "lea rdi, [rbp - ({link})]",
        "mov rsi, rax",
        "mov edx, 1",
        // As at a function's entry.
        "sub rsp, 8",
        "jmp {leave}",
        ".cfi_endproc",
        personality = sym personality,
        link = const LINK,
        data = const offset_of!(Base, data),
        argument = const ARGUMENT,
        entry = const ENTRY,
        leave = sym leave,
    )
}

/// A routine that leaves a fiber for good, with what comes before and after the switch.
macro_rules! last_routine {
    ([$($before:expr),*], [$($after:expr),*] $(, $place:ident = sym $path:path)?) => {
        naked_asm!(
            ".cfi_startproc",
            $($before,)*
            leave_over!(),
            $($after,)*
            ".cfi_endproc",
            state = const STATE,
            keeps = const KEEPS_FP,
            done = const DONE,
            resumers = const RESUMERS,
            fibers = const FIBERS,
            flags = const FLAGS,
            link = const LINK,
            $($place = sym $path,)?
        )
    };
}

/// The last switch: `rdi` the fiber, `rsi` the value, `rdx` the status.
#[unsafe(naked)]
pub unsafe extern "C" fn leave(fiber: *mut Base, value: *mut u8, status: isize) -> ! {
    last_routine!(
        [
            // The frame is the resumer's image from the first instruction on:
            // DW_CFA_def_cfa_expression, 5 bytes: DW_OP_breg5 (rdi) + link, DW_OP_deref,
            // DW_OP_plus_uconst 16
            image_rules!(),
            ".cfi_escape 0x0f, 5, 0x75, {link}, 0x06, 0x23, 16"
        ],
        ["mov rax, rsi", jump_back!()]
    )
}

/// Where [`personality`] lands an exception: `rax` the exception, `rbp` = `&Base.link`. Leaves for good
/// and raises it again in the resumer.
#[unsafe(naked)]
pub unsafe extern "C" fn landing() -> ! {
    last_routine!(
        [
            ".cfi_undefined rip",
            "lea rdi, [rbp - ({link})]",
            "mov rsi, rax",
            // As at a function's entry, for the hook; the stack is left for good.
            "sub rsp, 8"
        ],
        ["jmp {raise}"],
        raise = sym raise_here
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

/// Called for a fiber that is resumed while it runs, or after its end.
extern "C" fn entered_wrongly(fiber: *mut Base, _value: *mut u8) -> Switched {
    // SAFETY: C passed a fiber that was not freed.
    let state = unsafe { state(fiber) };
    Switched {
        value: ptr::null_mut(),
        status: code::of_state(state) as isize,
    }
}

/// Called for a fiber that is suspended while it does not run: there is no resumer to go back to.
extern "C" fn suspended_wrongly(_fiber: *mut Base, _value: *mut u8) -> *mut u8 {
    misuse("lancet_suspend was called for a fiber that is not running")
}
