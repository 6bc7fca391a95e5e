//! Pieces of assembly that [`super::switch`] is put together from: to write an image, to read one, to
//! exchange stacks, to tell a sanitizer.
//!
//! In all of them `rdi` is the fiber, `rsi` and `rdx` are carried through, and `rsp` is at a return
//! address, as at a function's entry. An image lies in the red zone below that: no signal handler
//! writes there, on a stack that runs; and on one that stands still nobody does.

/// Writes the image: the callee-saved registers, below the return address.
macro_rules! save {
    () => {
        "mov [rsp - 8], rbp
         .cfi_offset rbp, -16
         mov [rsp - 16], rbx
         .cfi_offset rbx, -24
         mov [rsp - 24], r12
         .cfi_offset r12, -32
         mov [rsp - 32], r13
         .cfi_offset r13, -40
         mov [rsp - 40], r14
         .cfi_offset r14, -48
         mov [rsp - 48], r15
         .cfi_offset r15, -56"
    };
}

/// Unwind rules where an image was written and not yet read.
macro_rules! image_rules {
    () => {
        ".cfi_offset rip, -8
         .cfi_offset rbp, -16
         .cfi_offset rbx, -24
         .cfi_offset r12, -32
         .cfi_offset r13, -40
         .cfi_offset r14, -48
         .cfi_offset r15, -56"
    };
}

/// Reads the image of the side whose stack this now is. The unwind rules are the same on both.
macro_rules! load {
    () => {
        "mov rbp, [rsp - 8]
         .cfi_restore rbp
         mov rbx, [rsp - 16]
         .cfi_restore rbx
         mov r12, [rsp - 24]
         .cfi_restore r12
         mov r13, [rsp - 32]
         .cfi_restore r13
         mov r14, [rsp - 40]
         .cfi_restore r14
         mov r15, [rsp - 48]
         .cfi_restore r15"
    };
}

/// Exchanges the stacks. The link points to where `rbp` is in the image: with the return address above
/// it, a frame record.
macro_rules! exchange {
    () => {
        "mov rax, [rdi + {link}]
         lea rcx, [rsp - 8]
         mov [rdi + {link}], rcx
         lea rsp, [rax + 8]"
    };
}

/// All of a switch but the jump to the return address. The hooks are those before and after.
macro_rules! switch_over {
    ($before:literal, $words:expr, $after:literal) => {
        concat!(
            hook!($before),
            "\n",
            $words,
            "\n",
            save!(),
            "\n",
            exchange!(),
            "\n",
            load!(),
            "\n",
            hook!($after)
        )
    };
}

/// All of the last switch but the jump: nothing of this side is kept.
macro_rules! leave_over {
    () => {
        concat!(
            hook!("lancet_hook_before_end"),
            "
             test byte ptr [rdi + {state}], {keeps}
             mov dword ptr [rdi + {state}], {done}
             je 5f
             ",
            exchange_words!("fibers", "resumers"),
            "
             mov rax, [rdi + {link}]
             lea rsp, [rax + 8]
             .cfi_def_cfa rsp, 8
             ",
            image_rules!(),
            "
             ",
            load!(),
            "\n",
            hook!("lancet_hook_in_resumer")
        )
    };
}

/// Goes on at the return address, not by `ret`: see [`crate::arch`].
macro_rules! jump_back {
    () => {
        "pop rcx
         .cfi_adjust_cfa_offset -8
         .cfi_register rip, rcx
         jmp rcx"
    };
}

/// Before an image is written: stores this side's control words in its place in the fiber, and loads
/// the other's from theirs where they differ; mxcsr with the flags that it has now ([`crate::fp`]). To store mxcsr takes 4 ns
/// by itself.
macro_rules! exchange_words {
    ($ours:literal, $theirs:literal) => {
        concat!(
            "stmxcsr [rdi + {",
            $ours,
            "}]
             fnstcw [rdi + {",
            $ours,
            "} + 4]
             mov eax, [rdi + {",
            $ours,
            "}]
             mov ecx, [rdi + {",
            $theirs,
            "}]
             xor ecx, eax
             and ecx, ~{flags}
             je 4f
             xor eax, ecx
             mov [rdi + {",
            $theirs,
            "}], eax
             ldmxcsr [rdi + {",
            $theirs,
            "}]
             4:
             movzx eax, word ptr [rdi + {",
            $ours,
            "} + 4]
             cmp ax, [rdi + {",
            $theirs,
            "} + 4]
             je 5f
             fldcw [rdi + {",
            $theirs,
            "} + 4]
             5:"
        )
    };
}

/// Calls a function of module `hooks` with the fiber, where the stack is as at a function's entry
/// and no image in use. Nothing, unless a sanitizer wants to hear of switches.
macro_rules! hook {
    ($name:literal) => {
        for_sanitizers!(concat!(
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
macro_rules! for_sanitizers {
    ($text:expr) => {
        $text
    };
}

#[cfg(not(any(feature = "asan", feature = "tsan")))]
macro_rules! for_sanitizers {
    ($text:expr) => {
        ""
    };
}
