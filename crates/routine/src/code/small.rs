//! The way of `enter`, `leave` and `probe` over a work stack (`room.rs`).
//!
//! Each macro is text for a block whose operands it uses. `$p` begins its labels: the block's name.

/// Blocks all signals, takes a free work stack and goes on at its upper end, less `$area` bytes. What is kept there for
/// the way back: at the address `$area` of the block, the head of the stack, and the stack pointer as it was in r8.
/// Where none is free, it sleeps for a moment and looks again, [`WAITS`](crate::room::WAITS) times at most: whoever has one gives it back soon. Where there
/// is none even then, jumps to `.L$p_none`. At rdx there is room for the signal mask. Changed are rax, rcx, rsi, rdi,
/// r10, r11.
#[doc(hidden)]
#[macro_export]
macro_rules! __take_work {
    ($p:literal $area:literal) => {
        concat!(
            "mov eax, {rt_sigprocmask}\n",
            "mov edi, {sig_setmask}\n",
            "lea rsi, [rip + trampoline_all_signals]\n",
            "mov r10d, 8\n",
            "syscall\n",
            "lea rdi, [rip + {rooms}]\n",
            "test eax, eax\n",
            "jnz .L",
            $p,
            "_none\n",
            "mov r10d, {waits}\n",
            ".L",
            $p,
            "_free:\n",
            "lea rsi, [rip + trampoline_works]\n",
            "xor ecx, ecx\n",
            ".L",
            $p,
            "_try:\n",
            "cmp qword ptr [rsi + rcx*8], 0\n",
            "jne .L",
            $p,
            "_taken\n",
            "xor eax, eax\n",
            "lock cmpxchg [rsi + rcx*8], rbp\n",
            "je .L",
            $p,
            "_got\n",
            ".L",
            $p,
            "_taken:\n",
            "inc ecx\n",
            "cmp ecx, {works}\n",
            "jb .L",
            $p,
            "_try\n",
            "lea rdi, [rip + trampoline_moment]\n",
            "xor esi, esi\n",
            "mov eax, {nanosleep}\n",
            "syscall\n",
            "dec r10d\n",
            "jnz .L",
            $p,
            "_free\n",
            // As it was.
            "mov eax, {rt_sigprocmask}\n",
            "mov edi, {sig_setmask}\n",
            "mov rsi, rdx\n",
            "xor edx, edx\n",
            "mov r10d, 8\n",
            "syscall\n",
            "lea rdi, [rip + {rooms}]\n",
            "jmp .L",
            $p,
            "_none\n",
            ".L",
            $p,
            "_got:\n",
            "lea rax, [rsi + rcx*8]\n",
            "inc ecx\n",
            "imul ecx, ecx, {work_size}\n",
            "lea rsp, [rsi + rcx + {heads} - ",
            $area,
            " - 16]\n",
            "mov [rsp + ",
            $area,
            "], rax\n",
            "mov [rsp + ",
            $area,
            " + 8], r8\n",
        )
    };
}

/// Back to where `__take_work` was. At rsi there is the signal mask that it kept. Changed are rax, rcx, rdx, rdi, r10,
/// r11.
#[doc(hidden)]
#[macro_export]
macro_rules! __give_work {
    ($area:literal) => {
        concat!(
            "mov rax, [rsp + ",
            $area,
            "]\n",
            "mov rsp, [rsp + ",
            $area,
            " + 8]\n",
            "mov qword ptr [rax], 0\n",
            "mov eax, {rt_sigprocmask}\n",
            "mov edi, {sig_setmask}\n",
            "xor edx, edx\n",
            "mov r10d, 8\n",
            "syscall\n",
        )
    };
}

/// Stage 3: the original gets a copy of the stack arguments below rsp, from the last on, 16 bytes a turn, by the
/// instructions given. r11: the descriptor. Changed are rax, rcx, and by `__next_page` more.
#[doc(hidden)]
#[macro_export]
macro_rules! __copy {
    ($p:literal, $($turn:literal),*) => {
        concat!(
            "mov ecx, [r11 + {copied}]\n",
            "test ecx, ecx\n",
            "jz .L", $p, "_copied\n",
            // What is left of the return address's page: 0, if the arguments begin with the next one.
            "lea eax, [rbp + {above}]\n",
            "neg eax\n",
            "and eax, {page} - 1\n",
            "cmp ecx, eax\n",
            "ja .L", $p, "_next_page\n",
            ".L", $p, "_copy:\n",
            "sub rsp, rcx\n",
            ".L", $p, "_turn:\n",
            $($turn, "\n",)*
            "jnz .L", $p, "_turn\n",
            ".L", $p, "_copied:\n",
        )
    };
}

/// Stage 3: the copy would reach into the next page. Is that one there? rt_sigprocmask(0x7fffffff, its last word, NULL,
/// 8) answers EFAULT if not. rcx, r11 and rax are lost to the kernel; r8 is free until it is restored.
#[doc(hidden)]
#[macro_export]
macro_rules! __next_page {
    ($p:literal) => {
        concat!(
            ".L",
            $p,
            "_next_page:\n",
            "mov r8d, ecx\n",
            "lea rsi, [rbp + rcx + {above} - 8]\n",
            "mov eax, {rt_sigprocmask}\n",
            "mov edi, 0x7fffffff\n",
            "xor edx, edx\n",
            "mov r10d, 8\n",
            "syscall\n",
            "mov ecx, r8d\n",
            "cmp eax, -{efault}\n",
            "jne .L",
            $p,
            "_copy\n",
            // As much as this page has.
            "lea ecx, [rbp + {above}]\n",
            "neg ecx\n",
            "and ecx, {page} - 16\n",
            "jz .L",
            $p,
            "_copied\n",
            "jmp .L",
            $p,
            "_copy\n",
        )
    };
}

/// Stages 2 to 4 of `trampoline_call_through` on a small stack.
#[doc(hidden)]
#[macro_export]
macro_rules! __small {
    ($enter:path, $leave:path) => {
        concat!(
            // Stage 2. On the work stack: xmm0 to xmm15.
            ".Lcall_through_small:\n",
            "mov r9, rdx\n",
            "lea rdx, [rbp - {frame} + {kept_original}]\n",
            "mov r8, rsp\n",
            $crate::__take_work!("call_through" "256"),
            $crate::__all_vectors!(save "rsp"),
            "lea rdi, [rbp - {frame}]\n",
            "mov rsi, rsp\n",
            "mov rdx, r9\n",
            "call {enter}\n",
            $crate::__all_vectors!(restore "rsp"),
            "mov r9d, eax\n",
            "lea rsi, [rbp - {frame} + {kept_original}]\n",
            $crate::__give_work!("256"),
            "mov r11, [rbp - {frame} + {descriptor}]\n",
            "test r9d, r9d\n",
            "jz .Lcall_through_not_seen\n",
            "test dword ptr [r11 + {flags}], {entry_only}\n",
            "jnz .Lcall_through_not_seen\n",
            "mov rax, [r11 + {original}]\n",
            "mov [rbp - {frame} + {kept_original}], rax\n",
            // Stage 3. The vector registers are as the original must find them; r9 says whether their low halves are
            // kept.
            "mov r9d, [r11 + {flags}]\n",
            "and r9d, {wants_floats}\n",
            "jz .Lcall_through_no_floats\n",
            "sub rsp, {floats}\n",
            $crate::__halves!("rsp": 0 1 2 3 4 5 6 7),
            ".Lcall_through_no_floats:\n",
            "and rsp, -16\n",
            $crate::__copy!("small",
                "mov rax, [rbp + {above} - 16 + rcx]",
                "mov rdx, [rbp + {above} - 8 + rcx]",
                "mov [rsp + rcx - 16], rax",
                "mov [rsp + rcx - 8], rdx",
                "sub rcx, 16"),
            "mov r11, [rbp - {frame} + {kept_r11}]\n",
            "mov [rbp - {frame} + {kept_r11}], r9\n",
            $crate::__arguments!(restore),
            "call [rbp - {frame} + {kept_original}]\n",
            $crate::__clear_return!(),
            "\n",
            "cmp dword ptr [rip + {gate} + {offset}], 0\n",
            "jne .Lsmall_results\n",
            "push r11\n",
            "mov r11, [rbp - {frame} + {descriptor}]\n",
            "test dword ptr [r11 + {flags}], {forks}\n",
            "pop r11\n",
            "jz .Lcall_through_return\n",
            // Stage 4. Here: the general registers that the original left. On the work stack: results, vectors.
            ".Lsmall_results:\n",
            "lea rsp, [rbp - {frame} - {kept_results}]\n",
            "cmp qword ptr [rbp - {frame} + {kept_r11}], 0\n",
            "je .Lsmall_kept\n",
            "lea rsp, [rsp - {floats}]\n",
            ".Lsmall_kept:\n",
            $crate::__results!(save "rsp - 256"),
            "mov r8, rsp\n",
            "mov r9, [rbp - {frame} + {kept_r11}]\n",
            "lea rdx, [rbp - {frame} + {kept_r11}]\n",
            $crate::__take_work!("small" "{small_area}"),
            $crate::__all_vectors!(save "rsp"),
            "lea rdi, [rsp + 256]\n",
            "mov rsi, r8\n",
            "mov ecx, {kept_results} / 8\n",
            "cld\n",
            "rep movsq\n",
            // r9 = 0: zeros; else what is kept.
            "lea rsi, [rbp - {frame} - {floats}]\n",
            "mov ecx, 8\n",
            ".Lsmall_vectors:\n",
            "xor eax, eax\n",
            "test r9, r9\n",
            "jz .Lsmall_zeros\n",
            "mov rax, [rsi + rcx*8 - 8]\n",
            ".Lsmall_zeros:\n",
            "lea rdi, [rcx + rcx]\n",
            "mov [rsp + rdi*8 + {results} - 16], rax\n",
            "mov qword ptr [rsp + rdi*8 + {results} - 8], 0\n",
            "dec ecx\n",
            "jnz .Lsmall_vectors\n",
            "lea rdi, [rbp - {frame}]\n",
            "mov rsi, rsp\n",
            "lea rdx, [rsp + {results}]\n",
            "call {leave}\n",
            $crate::__all_vectors!(restore "rsp"),
            // What `leave` has changed.
            "lea rsi, [rsp + 256]\n",
            "mov rdi, [rsp + {small_area} + 8]\n",
            "mov ecx, {kept_results} / 8\n",
            "rep movsq\n",
            "lea rsi, [rbp - {frame} + {kept_r11}]\n",
            $crate::__give_work!("{small_area}"),
            $crate::__results!(restore "rsp - 256"),
            "jmp .Lcall_through_return\n",
            // No work stack is free: not seen. rdi: the rooms.
            ".Lcall_through_none:\n",
            "lock inc qword ptr [rdi + {unseen}]\n",
            "jmp .Lcall_through_not_seen\n",
            ".Lsmall_none:\n",
            "lock inc qword ptr [rdi + {unseen}]\n",
            $crate::__results!(restore "rsp - 256"),
            "jmp .Lcall_through_return\n",
            $crate::__next_page!("small"),
        )
    };
}

/// The low halves of vector registers, 8 bytes apart.
#[doc(hidden)]
#[macro_export]
macro_rules! __halves {
    ($at:literal: $($number:literal)*) => {
        concat!($("movq [", $at, " + 8 * ", $number, "], xmm", $number, "\n"),*)
    };
}

/// The work stacks of the image, and all signals.
#[doc(hidden)]
#[macro_export]
macro_rules! __works {
    () => {
        ::core::arch::global_asm!(
            ".pushsection .bss.trampoline,\"aw\",@nobits",
            ".balign 4096",
            ".globl trampoline_works",
            ".hidden trampoline_works",
            "trampoline_works:",
            ".zero {heads} + {works} * {work_size}",
            ".popsection",
            ".pushsection .rodata.trampoline,\"a\",@progbits",
            ".balign 8",
            ".globl trampoline_all_signals",
            ".hidden trampoline_all_signals",
            "trampoline_all_signals:",
            ".quad -1",
            // A `struct timespec`: seconds, nanoseconds.
            ".globl trampoline_moment",
            ".hidden trampoline_moment",
            "trampoline_moment:",
            ".quad 0, {moment}",
            ".popsection",
            works = const $crate::room::WORK_STACKS,
            work_size = const $crate::room::WORK_STACK,
            heads = const $crate::room::HEADS,
            moment = const $crate::room::MOMENT,
        );
    };
}
