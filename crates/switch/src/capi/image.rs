//! Pieces of assembly that [`super::switch`] is put together from: to push an image, to pop one, to
//! exchange stacks, to tell a sanitizer. Each changes the unwind rules along with `rsp`.
//!
//! In all of them `rdi` is the fiber, and `rsi` and `rdx` are carried through.

/// Pushes the image, after which `rsp` may go into the link.
macro_rules! save {
    () => {
        "push rbp
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset rbp, 0
         push rbx
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset rbx, 0
         push r12
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset r12, 0
         push r13
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset r13, 0
         push r14
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset r14, 0
         push r15
         .cfi_adjust_cfa_offset 8
         .cfi_rel_offset r15, 0
         sub rsp, 8
         .cfi_adjust_cfa_offset 8
         cmp byte ptr [rdi + {fp}], 0
         je 2f
         stmxcsr [rsp]
         fnstcw [rsp + 4]
         2:"
    };
}

/// Unwind rules where `rsp` is at an image and nothing else is on the stack.
macro_rules! image_rules {
    () => {
        ".cfi_def_cfa rsp, 64
         .cfi_offset rbp, -16
         .cfi_offset rbx, -24
         .cfi_offset r12, -32
         .cfi_offset r13, -40
         .cfi_offset r14, -48
         .cfi_offset r15, -56"
    };
}

/// Pops the other side's image, down to the return address. The rules need no change in between:
/// both sides' images have one layout.
macro_rules! load {
    () => {
        "cmp byte ptr [rdi + {fp}], 0
         je 2f
         ldmxcsr [rsp]
         fldcw [rsp + 4]
         2:
         add rsp, 8
         .cfi_adjust_cfa_offset -8
         pop r15
         .cfi_adjust_cfa_offset -8
         .cfi_restore r15
         pop r14
         .cfi_adjust_cfa_offset -8
         .cfi_restore r14
         pop r13
         .cfi_adjust_cfa_offset -8
         .cfi_restore r13
         pop r12
         .cfi_adjust_cfa_offset -8
         .cfi_restore r12
         pop rbx
         .cfi_adjust_cfa_offset -8
         .cfi_restore rbx
         pop rbp
         .cfi_adjust_cfa_offset -8
         .cfi_restore rbp"
    };
}

/// Exchanges `rsp` with the link.
macro_rules! exchange {
    () => {
        "mov rax, [rdi + {link}]
         mov [rdi + {link}], rsp
         mov rsp, rax"
    };
}

/// Calls a function of [`super::hooks`] with the fiber, where the stack is as at a function's entry.
/// Nothing, unless a sanitizer wants to hear of switches.
macro_rules! hook {
    ($name:literal) => {
        hook_call!(concat!(
            "push rdi
             .cfi_adjust_cfa_offset 8
             push rsi
             .cfi_adjust_cfa_offset 8
             push rdx
             .cfi_adjust_cfa_offset 8
             call ",
            $name,
            "
             pop rdx
             .cfi_adjust_cfa_offset -8
             pop rsi
             .cfi_adjust_cfa_offset -8
             pop rdi
             .cfi_adjust_cfa_offset -8"
        ))
    };
}

#[cfg(any(feature = "asan", feature = "tsan"))]
macro_rules! hook_call {
    ($text:expr) => {
        $text
    };
}

#[cfg(not(any(feature = "asan", feature = "tsan")))]
macro_rules! hook_call {
    ($text:expr) => {
        ""
    };
}
