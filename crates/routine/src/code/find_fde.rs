//! `trampoline_find_fde`: the answer to `_Unwind_Find_FDE` (`unwind.rs`), and the instruction that remote calls use.

/// Expands to `trampoline_find_fde`, which tells an unwinder our rules for addresses in our code and goes on to the C library's for all others,
/// and to a `syscall; ret` behind it.
#[doc(hidden)]
#[macro_export]
macro_rules! __find_fde {
    () => {
        ::core::arch::global_asm!(
            ".pushsection .text.trampoline,\"ax\",@progbits",
            ".balign 64",
            ".globl trampoline_find_fde",
            ".hidden trampoline_find_fde",
            "trampoline_find_fde:",
            "endbr64",
            // rdi: an address. Ours?
            "lea rax, [rip + trampoline_call_through_end]",
            "cmp rdi, rax",
            "jae .Lfind_fde_original",
            "lea rax, [rip + trampoline_call_through]",
            "cmp rdi, rax",
            "jb .Lfind_fde_original",
            // rsi: struct dwarf_eh_bases, tbase, dbase, func.
            "mov qword ptr [rsi], 0",
            "mov qword ptr [rsi + 8], 0",
            "mov [rsi + 16], rax",
            "lea rax, [rip + trampoline_fde]",
            "ret",
            // No: to the function itself, with the caller's r11 from where the stub put it.
            ".Lfind_fde_original:",
            "mov r11, [r11 + {original}]",
            "mov [rsp - 8], r11",
            "mov r11, [rsp - 16]",
            "jmp [rsp - 8]",
            // For remote calls: the program's own may be hooked.
            "syscall",
            "ret",
            ".popsection",
            original = const ::core::mem::offset_of!($crate::Descriptor, original),
        );
    };
}
