//! Where the main thread of a program that we started comes by on its way to the first Ruby line; see
//! `wire::arrival`.
//!
//! A thread is led here by a changed entry address or by a jump over a function's first bytes, so it
//! must find every register and the stack as it left them when it goes on.
//!
//! ```text
//!   rsp at arrival ─► …
//!                     flags, 15 registers
//!   rbp ────────────► (rsp rounded down to 16 for the call)
//! ```

use crate::sys;
use core::arch::naked_asm;
use wire::Arrival;
use wire::arrival::{ENTRY, JUMP, MARK, SCRIPT};

/// Written by the command while the thread stands still.
#[unsafe(no_mangle)]
static mut ARRIVALS: [Arrival; 2] = [NOWHERE; 2];

const NOWHERE: Arrival = Arrival {
    go_on: 0,
    word: 0,
    word_was: 0,
    code: 0,
    code_was: [0; 16],
};

/// Defines a place of arrival: saves everything, calls [`landed`] with its number, restores, goes on.
macro_rules! arrival {
    ($name:ident, $number:expr) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "pushfq",
                "push rax", "push rbx", "push rcx", "push rdx", "push rsi", "push rdi", "push rbp",
                "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
                "mov rbp, rsp",
                "and rsp, -16",
                "cld",
                "mov edi, {number}",
                "call {landed}",
                "mov rsp, rbp",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
                "pop rbp", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rbx", "pop rax",
                "popfq",
                // `go_on` is the record's first word.
                "jmp [rip + {arrivals} + {number} * {size}]",
                number = const $number,
                landed = sym landed,
                arrivals = sym ARRIVALS,
                size = const size_of::<Arrival>(),
            )
        }
    };
}

arrival!(arrive_entry, ENTRY);
arrival!(arrive_script, SCRIPT);

extern "C" fn landed(number: usize) {
    // SAFETY: the program has one thread as yet, and the command writes only while it stands still.
    let arrival = unsafe { (*(&raw const ARRIVALS))[number & 1] };
    if arrival.word != 0 {
        // SAFETY: the command found the word in the program's own auxiliary vector.
        unsafe { *(arrival.word as *mut u64) = arrival.word_was };
    }
    sys::mark(MARK, number as u64);
    if arrival.code != 0 {
        heal(&arrival);
    }
    if number == SCRIPT {
        // SAFETY: the VM has been made, and its main thread, this one, holds its lock between two
        // calls of the program's `main`: as good as a job's safe point.
        unsafe { crate::job(0) };
    }
}

/// Puts code right that led here, if the command has not lived to do it.
fn heal(arrival: &Arrival) {
    let code = arrival.code as *mut [u8; JUMP];
    let mut was = [0; JUMP];
    was.copy_from_slice(&arrival.code_was[..JUMP]);
    // SAFETY: the command took the address from the program's symbols and read these bytes there.
    if unsafe { *code } == was {
        return;
    }
    // Through the file the kernel writes to whatever the protection; where it does not, by protection.
    if sys::overwrite(arrival.code, &was) {
        return;
    }
    let first = arrival.code & !(wire::PAGE as u64 - 1);
    let end = (arrival.code + JUMP as u64).next_multiple_of(wire::PAGE as u64);
    if sys::protect(first, end - first, sys::READ_WRITE_EXECUTE) {
        // SAFETY: as above; the page is writable, and no other thread runs.
        unsafe { *code = was };
        sys::protect(first, end - first, sys::READ_EXECUTE);
    }
}
