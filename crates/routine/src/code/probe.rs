//! `trampoline_probe`: a thread passes a probe in mid-function.
//!
//! The stub calls it, and every register may be in use, the red zone too. So the stub steps over that first; flags
//! are kept before anything changes them. They are restored by `sahf` and an addition, because `popf` takes longer than
//! everything else here; where the function has the direction flag set, or the processor is so old that it does not tell the
//! thread pointer (it may lack `sahf` then), by `popf`. `quick_probe` is asked first, with no vector register kept
//! ([`crate::quick`]). The stack while `probe` runs:
//!
//! ```text
//!   what the function has on its stack      ◄── its rsp
//!   red zone, 128 bytes (ABI 3.2.2)
//!   its r11, pushed by the stub             rbp + 24
//!   return address, into the stub           rbp + 16
//!   its flags                               rbp + 8
//!   its rbp                                 rbp
//!   the signal mask, on a small stack       rbp - 8
//!   alignment
//!   ProbeFrame: general registers           ◄── rsp, on a small stack (`room`), where `probe` gets a copy elsewhere
//!   ProbeFrame: vector registers            ◄── rsp
//! ```

/// Expands to `trampoline_probe`, and to `trampoline_elsewhere`, to which it returns a thread that is to go on at another address.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe {
    ($probe:path, $quick_probe:path, $gate:path, $offset:expr, $rooms:path) => {
        ::core::arch::global_asm!(
            ".pushsection .text.trampoline,\"ax\",@progbits",
            ".balign 64",
            ".globl trampoline_probe",
            ".hidden trampoline_probe",
            "trampoline_probe:",
            "endbr64",
            "pushfq",
            "cmp dword ptr [rip + {gate} + {offset}], 0",
            "je .Lprobe_closed",
            ".Lprobe_open:",
            // The ABI wants it clear at a call; the function may have set it.
            "cld",
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, {size} + 8",
            "and rsp, -16",
            "add rsp, {vectors}",
            $crate::__all!(save "rsp - {vectors}"),
            // The rest is on the stack.
            "lea rax, [rbp + 32 + 128]",
            "mov [rsp - {vectors} + {at_rsp}], rax",
            "mov rax, [rbp]",
            "mov [rsp - {vectors} + {at_rbp}], rax",
            "mov rax, [rbp + 24]",
            "mov [rsp - {vectors} + {at_r11}], rax",
            "mov rax, [rbp + 8]",
            "mov [rsp - {vectors} + {flags}], rax",
            "mov [rsp - {vectors} + {descriptor}], r11",
            $crate::__room!("probe"),
            ".Lprobe_roomy:",
            // Without vector registers, in whose place below rsp its return address is.
            "lea rdi, [rsp - {vectors}]",
            "mov rsi, rdx",
            "call {quick_probe}",
            $crate::__clear_return!(),
            "cmp eax, {quick_done}",
            "je .Lprobe_left",
            "sub rsp, {vectors}",
            $crate::__all_vectors!(save "rsp"),
            "mov rdi, rsp",
            "call {probe}",
            $crate::__clear_return!(),
            $crate::__all_vectors!(restore "rsp"),
            "add rsp, {vectors}",
            ".Lprobe_left:",
            "mov rax, [rbp + 8]",
            "test eax, {direction}",
            "jnz .Lprobe_flags",
            "lea rdi, [rip + {rooms}]",
            "cmp qword ptr [rdi + {tells_pointer}], 0",
            "je .Lprobe_flags",
            // The overflow flag, which `sahf` leaves alone; then the others. Nothing below changes any.
            "bt eax, {overflow}",
            "mov ah, al",
            "setc al",
            "add al, 0x7f",
            "sahf",
            $crate::__all!(restore "rsp - {vectors}"),
            "mov rsp, rbp",
            "pop rbp",
            "lea rsp, [rsp + 8]",
            "ret",
            ".Lprobe_flags:",
            $crate::__all!(restore "rsp - {vectors}"),
            "mov rsp, rbp",
            "pop rbp",
            ".Lprobe_done:",
            "popfq",
            "ret",
            // A child that comes out of a system call with its gate wiped, and with 0 as that call's result, waits to be followed.
            ".Lprobe_closed:",
            "cmp qword ptr [rip + {rooms} + {forking}], 0",
            "je .Lprobe_done",
            "test rax, rax",
            "jz .Lprobe_open",
            "jmp .Lprobe_done",
            // Returned to in the stub's place: the thread goes on where `probe` has put into rcx, which a system call changes
            // too, as it does r11.
            ".balign 16",
            ".globl trampoline_elsewhere",
            ".hidden trampoline_elsewhere",
            "trampoline_elsewhere:",
            "lea rsp, [rsp + 8 + 128]",
            "jmp rcx",
            $crate::__search!("probe"),
            ".Lprobe_small:",
            "lea rdx, [rbp - 8]",
            "mov r8, rsp",
            $crate::__take_work!("probe" "{size}"),
            $crate::__all_vectors!(save "rsp"),
            "lea rdi, [rsp + {vectors}]",
            "mov rsi, r8",
            "mov ecx, ({size} - {vectors}) / 8",
            "rep movsq",
            "mov rdi, rsp",
            "call {probe}",
            $crate::__all_vectors!(restore "rsp"),
            "lea rsi, [rbp - 8]",
            $crate::__give_work!("{size}"),
            "jmp .Lprobe_left",
            ".Lprobe_none:",
            "lock inc qword ptr [rdi + {unseen}]",
            "jmp .Lprobe_left",
            ".popsection",
            probe = sym $probe,
            quick_probe = sym $quick_probe,
            quick_done = const $crate::quick::DONE,
            // Bits of RFLAGS (Intel SDM 1, 3.4.3).
            direction = const 1 << 10,
            overflow = const 11,
            gate = sym $gate,
            offset = const $offset,
            rooms = sym $rooms,
            threads = const $crate::room::THREADS,
            moved = const $crate::room::MOVED,
            thread = const ::core::mem::offset_of!($crate::Room, thread),
            room_low = const ::core::mem::offset_of!($crate::Room, low),
            room_span = const ::core::mem::offset_of!($crate::Room, span),
            stack_low = const ::core::mem::offset_of!($crate::Rooms, stack),
            stack_span = const ::core::mem::offset_of!($crate::Rooms, stack) + 8,
            tells_pointer = const ::core::mem::offset_of!($crate::Rooms, tells_pointer),
            unseen = const ::core::mem::offset_of!($crate::Rooms, unseen),
            forking = const ::core::mem::offset_of!($crate::Rooms, forking),
            works = const $crate::room::WORK_STACKS,
            work_size = const $crate::room::WORK_STACK,
            heads = const $crate::room::HEADS,
            rt_sigprocmask = const 14,
            nanosleep = const 35,
            waits = const $crate::room::WAITS,
            gettid = const 186,
            sig_setmask = const 2,
            vectors = const 16 * 16,
            size = const ::core::mem::size_of::<$crate::ProbeFrame>(),
            flags = const ::core::mem::offset_of!($crate::ProbeFrame, flags),
            descriptor = const ::core::mem::offset_of!($crate::ProbeFrame, descriptor),
            // By the machine's numbers of registers.
            at_rax = const ::core::mem::offset_of!($crate::ProbeFrame, registers),
            at_rcx = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8,
            at_rdx = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 2,
            at_rbx = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 3,
            at_rsp = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 4,
            at_rbp = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 5,
            at_rsi = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 6,
            at_rdi = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 7,
            at_r8 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 8,
            at_r9 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 9,
            at_r10 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 10,
            at_r11 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 11,
            at_r12 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 12,
            at_r13 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 13,
            at_r14 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 14,
            at_r15 = const ::core::mem::offset_of!($crate::ProbeFrame, registers) + 8 * 15,
        );
    };
}
