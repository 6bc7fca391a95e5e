//! `trampoline_find_object` and `trampoline_iterate_objects`: our code as one more object of the loader's, for unwinders that
//! are linked into a library (`unwind.rs`).

/// Expands to `trampoline_find_object` and `trampoline_iterate_objects`, and to the program headers that describe our code to an unwinder. What
/// is not ours is answered by the loader's own functions, so an unwinder finds everything that it found before.
#[doc(hidden)]
#[macro_export]
macro_rules! __find_object {
    () => {
        ::core::arch::global_asm!(
            ".pushsection .text.trampoline,\"ax\",@progbits",
            ".balign 64",
            ".globl trampoline_find_object",
            ".hidden trampoline_find_object",
            "trampoline_find_object:",
            "endbr64",
            // rdi: an address. Ours?
            "lea rax, [rip + trampoline_call_through_end]",
            "cmp rdi, rax",
            "jae .Lfind_object_original",
            "lea rax, [rip + trampoline_call_through]",
            "cmp rdi, rax",
            "jb .Lfind_object_original",
            // rsi: struct dl_find_object, flags, map_start, map_end, link_map, eh_frame (bits/dl_find_object.h of glibc).
            "mov qword ptr [rsi], 0",
            "mov [rsi + 8], rax",
            "lea rax, [rip + trampoline_call_through_end]",
            "mov [rsi + 16], rax",
            "lea rax, [rip + .Lfind_object_link_map]",
            "mov [rsi + 24], rax",
            "lea rax, [rip + trampoline_eh_frame_hdr]",
            "mov [rsi + 32], rax",
            "xor eax, eax",
            "ret",
            ".Lfind_object_original:",
            "mov r11, [r11 + {original}]",
            "mov [rsp - 8], r11",
            "mov r11, [rsp - 16]",
            "jmp [rsp - 8]",
            ".balign 64",
            ".globl trampoline_iterate_objects",
            ".hidden trampoline_iterate_objects",
            // rdi: the caller's function, rsi: its data. First the function itself with all objects of the loader's.
            "trampoline_iterate_objects:",
            "endbr64",
            "push rbp",
            "mov rbp, rsp",
            "push rbx",
            "push rsi",
            "sub rsp, 64",
            "mov rbx, rdi",
            "call [r11 + {original}]",
            $crate::__clear_return!(),
            // Not 0: the caller has found what it sought.
            "test eax, eax",
            "jnz .Literate_objects_found",
            // Then ours. struct dl_phdr_info: addr, name, phdr, phnum; the rest is beyond the size that is told.
            "lea rax, [rip + .Lobject_base]",
            "mov [rsp], rax",
            "lea rax, [rip + .Lobject_name]",
            "mov [rsp + 8], rax",
            "lea rax, [rip + .Lobject_headers]",
            "mov [rsp + 16], rax",
            "mov qword ptr [rsp + 24], 2",
            "xor eax, eax",
            "mov [rsp + 32], rax",
            "mov [rsp + 40], rax",
            "mov [rsp + 48], rax",
            "mov [rsp + 56], rax",
            "mov rdi, rsp",
            "mov esi, 32",
            "mov rdx, [rbp - 16]",
            "call rbx",
            $crate::__clear_return!(),
            ".Literate_objects_found:",
            "mov rbx, [rbp - 8]",
            "leave",
            "ret",
            ".popsection",
            ".pushsection .rodata.trampoline,\"a\",@progbits",
            ".balign 8",
            // Addresses of what follows are counted from here; the image's code lies above.
            ".Lobject_base:",
            // PT_LOAD, PF_R | PF_X.
            ".Lobject_headers:",
            ".long 1, 5",
            ".quad 0",
            ".quad trampoline_call_through - .Lobject_base",
            ".quad trampoline_call_through - .Lobject_base",
            ".quad trampoline_call_through_end - trampoline_call_through",
            ".quad trampoline_call_through_end - trampoline_call_through",
            ".quad 4096",
            // PT_GNU_EH_FRAME, PF_R: a header and two entries of its table.
            ".long 0x6474e550, 4",
            ".quad 0",
            ".quad trampoline_eh_frame_hdr - .Lobject_base",
            ".quad trampoline_eh_frame_hdr - .Lobject_base",
            ".quad 20",
            ".quad 20",
            ".quad 4",
            // Of a struct link_map, libgcc reads l_addr, the first word.
            ".Lfind_object_link_map:",
            ".zero 64",
            ".Lobject_name:",
            ".asciz \"[lancet]\"",
            ".popsection",
            original = const ::core::mem::offset_of!($crate::Descriptor, original),
        );
    };
}
