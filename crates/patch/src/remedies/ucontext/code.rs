//! The new `getcontext`, `setcontext` and `swapcontext`, in assembly, and what `pthread_sigmask` does before it goes on as it was.
//! Used by `ucontext`.
//!
//! Each leaves in a `ucontext_t` what glibc's own would leave there and reads from it what glibc's own would read (sysdeps/unix/sysv/linux/x86_64/
//! `swapcontext.S` and `ucontext_i.sym`, glibc 2.31 to 2.41), so a context that one of them has saved may be resumed by the other. All are leaf functions.
//!
//! ```text
//!   ucontext_t                                   thread (struct pthread of glibc, from the thread pointer on)
//!   0x028 r8 r9        0x0a0 rsp                 0x080 the thread that the mask is of   (rtld_savespace_sse, which
//!   0x048 r12 … r15    0x0a8 rip                 0x088 the mask                          no glibc uses since 2.23)
//!   0x068 rdi rsi      0x0e0 address of 0x1a8    0x2d0 the thread's id
//!   0x078 rbp rbx      0x0e8 reserved: MARK      rseq  struct rseq; the word at 8 is rseq_cs
//!   0x088 rdx          0x128 signal mask
//!   0x098 rcx          0x1a8 x87 environment (28 bytes of fnstenv), 0x1c0 MXCSR
//! ```
//!
//! # Which mask a thread has, without asking
//!
//! The word at 0x88 is the thread's mask for as long as `rseq_cs` holds the address of [`DESCRIPTOR`], a sequence that is never run. The kernel clears that word
//! whenever it delivers a signal to the thread or takes it from its processor (kernel/rseq.c up to Linux 6.18, `rseq_ip_fixup`: "not in the critical section, clear"; since then only where it was interrupted, see `TOO_NEW`). So
//! no handler has begun since it was written, and the mask cannot have changed but by a system call, which the new `pthread_sigmask` sees. (`sigprocmask`, `siglongjmp`
//! and the rest of glibc end there.) Once it was cleared, the next switch makes glibc's own system call, and learns what the mask is.
//!
//! What it learns may be the mask of a signal handler, which ends with `rt_sigreturn`, and nobody sees that. So the mask counts as known again only if
//! it is the one that was known last: a handler's has at least its own signal in addition. And a context that was saved while that was not so is
//! not MARKed: who resumes it may be resuming a handler, and the mask is not known from then on.
//!
//! | mask known | context to resume | what is done |
//! |---|---|---|
//! | yes | marked, the same mask | no system call |
//! | yes | marked, another mask | one; that mask is known |
//! | yes or no | not marked | one, unless the mask is known and the same; not known any more |
//! | no | marked | one; that mask is known |
//!
//! # Which exception flags a context finds
//!
//! Control bits (rounding, precision, masks of exceptions) are exact always. The flags that say which exceptions there were are sticky, and
//! nearly every program has contexts in which they differ: one has computed something inexact, the other has not. To load other flags into MXCSR
//! costs little, but the next `stmxcsr` waits for it: 49 ns on an Intel Xeon (1.3 where they are the same), `fldenv` 59. So MXCSR is loaded with the
//! context's control bits and flags together with the flags that the thread has by now, and only if that is another word: a context
//! finds every flag that it has raised, and may find some that others of its thread have raised. The flags of all contexts are soon the same, and
//! nothing is loaded. [`MAY_DIFFER`] 0 takes that leave away.
//!
//! The order of the stores makes a signal between any two of them harmless: `rseq_cs` first, then the mask; a signal in between clears the first.

/// Offsets in [`bytes`], which begin at a page: two of code and constants, read-only.
pub(super) const SIZE: usize = 8192;
/// Where the words are that the loader fills in: addresses of the functions as they were.
pub(super) const ORIGINALS: [(&str, usize); 4] = [
    ("lancet_original_getcontext", 4096),
    ("lancet_original_setcontext", 4104),
    ("lancet_original_swapcontext", 4112),
    ("lancet_original_pthread_sigmask", 4120),
];
/// The distance of `rseq_cs` from the thread pointer.
pub(super) const SEQUENCE: usize = 4128;
/// The bits of exception flags in which a context that is resumed may find more than it has saved: of the x87 status word in the
/// low half, of MXCSR in the high one. 0: it finds what it has saved, as with glibc's own.
pub(super) const MAY_DIFFER: usize = 4136;
/// What stands there if flags belong to the thread: of x87 the inexact flag and the condition codes, which no call preserves; all six flags of MXCSR.
/// The other flags of x87 stay with their context: one that is set traps as soon as its exception is enabled. So do these, wherefore a program
/// that may enable them is refused (`no_traps` of this module's parent).
pub(super) const FLAGS_OF_THREAD: u64 = 0x3f << 32 | 0x4720;
/// A `struct rseq_cs` (include/uapi/linux/rseq.h): version, flags, start, length, address to go to; 32 bytes, aligned.
pub(super) const DESCRIPTOR: usize = 4160;
/// Its start, which no thread reaches, and the address to go to, behind the signature that the kernel wants there.
pub(super) const START: usize = 8;
pub(super) const ABORT: usize = 20;

/// The functions of a mode, and where they begin.
pub(super) fn entries(strict: bool) -> Vec<(&'static str, usize)> {
    let table = table();
    let at = |number: usize| u32::from_le_bytes(table[number]) as usize;
    if strict {
        vec![
            ("getcontext", at(0)),
            ("setcontext", at(1)),
            ("swapcontext", at(2)),
            ("pthread_sigmask", at(3)),
        ]
    } else {
        vec![("setcontext", at(4)), ("swapcontext", at(5))]
    }
}

/// The offsets of the functions.
fn table() -> [[u8; 4]; 6] {
    unsafe extern "C" {
        static lancet_ucontext_table: [[u8; 4]; 6];
    }
    // SAFETY: The assembly below defines six words there, constants.
    unsafe { lancet_ucontext_table }
}

/// Code and constants, the words that are filled in still zero.
pub(super) fn bytes() -> Vec<u8> {
    unsafe extern "C" {
        static lancet_ucontext_code: [u8; 4096];
    }
    // SAFETY: The assembly below fills a whole page there, constants.
    let mut bytes = unsafe { lancet_ucontext_code }.to_vec();
    bytes.resize(SIZE, 0);
    bytes
}

core::arch::global_asm!(
    r#"
    .pushsection .rodata.lancet_ucontext, "a", @progbits

    // Saves the caller of the function into the context at rdi. Changes rcx.
    .macro LANCET_UC_SAVE
    mov [rdi + 0x80], rbx
    mov [rdi + 0x78], rbp
    mov [rdi + 0x48], r12
    mov [rdi + 0x50], r13
    mov [rdi + 0x58], r14
    mov [rdi + 0x60], r15
    mov [rdi + 0x68], rdi
    mov [rdi + 0x70], rsi
    mov [rdi + 0x88], rdx
    mov [rdi + 0x98], rcx
    mov [rdi + 0x28], r8
    mov [rdi + 0x30], r9
    mov rcx, [rsp]
    mov [rdi + 0xa8], rcx
    lea rcx, [rsp + 8]
    mov [rdi + 0xa0], rcx
    lea rcx, [rdi + 0x1a8]
    mov [rdi + 0xe0], rcx
    // What fnstenv would store if the x87 stack is empty, as it is at every call (psABI 3.2.1), and has had no fault.
    fnstcw [rdi + 0x1a8]
    fnstsw [rdi + 0x1ac]
    mov word ptr [rdi + 0x1aa], -1
    mov word ptr [rdi + 0x1ae], -1
    mov dword ptr [rdi + 0x1b0], -1
    mov qword ptr [rdi + 0x1b4], 0
    mov dword ptr [rdi + 0x1bc], 0
    stmxcsr [rdi + 0x1c0]
    .endm

    // Makes the floating-point control those of the context at r9, and the exception flags as MAY_DIFFER says; what the thread has
    // now is at \cw, \sw and \mxcsr. Changes rax, rcx, rdx, rsi, and 4 bytes at rsp - 32.
    .macro LANCET_UC_FP cw, sw, mxcsr
    mov rcx, [r9 + 0xe0]
    mov rsi, [rip + lancet_ucontext_code + 4136]
    movzx eax, word ptr [rcx + 4]
    movzx edx, word ptr \sw
    xor edx, eax
    // A bit may differ if it is one of MAY_DIFFER and not a flag that the context has raised itself.
    and eax, 0x7f
    not eax
    and eax, esi
    not eax
    test eax, edx
    jnz 70f
    movzx eax, word ptr \cw
    movzx edx, word ptr [rcx]
    cmp eax, edx
    je 71f
    // Another control word alone; where it would make a pending exception of a flag that is set, the flags go with it.
    not edx
    movzx eax, word ptr \sw
    and eax, 0x3f
    test eax, edx
    jnz 70f
    fldcw [rcx]
    jmp 71f
70: fldenv [rcx]
71: shr rsi, 32
    mov eax, \mxcsr
    and esi, eax
    or esi, [r9 + 0x1c0]
    cmp esi, eax
    je 72f
    mov [rsp - 32], esi
    ldmxcsr [rsp - 32]
72:
    .endm

    // Goes on in the context at r9.
    .macro LANCET_UC_GO
    mov r11, [r9 + 0xa8]
    mov rsp, [r9 + 0xa0]
    mov rbx, [r9 + 0x80]
    mov rbp, [r9 + 0x78]
    mov r12, [r9 + 0x48]
    mov r13, [r9 + 0x50]
    mov r14, [r9 + 0x58]
    mov r15, [r9 + 0x60]
    mov rsi, [r9 + 0x70]
    mov rdi, [r9 + 0x68]
    mov rcx, [r9 + 0x98]
    mov rdx, [r9 + 0x88]
    mov r8, [r9 + 0x28]
    mov r9, [r9 + 0x30]
    xor eax, eax
    jmp r11
    .endm

    // rax = where rseq_cs is, from the thread pointer on; r11 = what is there while the mask is known, and MARK.
    .macro LANCET_UC_KNOWN
    mov rax, [rip + lancet_ucontext_code + 4128]
    lea r11, [rip + lancet_ucontext_code + 4160]
    .endm

    // Goes to \no unless the mask is known; it is in rdx. Changes ecx. The mask is read first: a signal later shows in rseq_cs.
    .macro LANCET_UC_MASK no
    LANCET_UC_KNOWN
    mov rdx, fs:[0x88]
    cmp fs:[rax], r11
    jne \no
    mov ecx, fs:[0x2d0]
    cmp ecx, fs:[0x80]
    jne \no
    .endm

    // rt_sigprocmask(SIG_SETMASK, mask of the context at r9, \old); changes rax, rcx, rdx, rsi, rdi, r10, r11.
    .macro LANCET_UC_SET
    mov edi, 2
    lea rsi, [r9 + 0x128]
    mov r10d, 8
    mov eax, 14
    syscall
    .endm

    // The mask of the context at r9 is set and known from here on. SIGKILL and SIGSTOP are never in a mask.
    .macro LANCET_UC_KNOW
    mov fs:[rax], r11
    mov rdx, [r9 + 0x128]
    and rdx, ~0x40100
    mov fs:[0x88], rdx
    .endm

    .balign 64
lancet_ucontext_code:
    ud2
    .balign 8
    ud2
    .balign 16
    .byte 0x53, 0x30, 0x05, 0x53
    ud2

    .balign 64
lancet_uc_get:
    LANCET_UC_SAVE
    LANCET_UC_MASK 1f
    mov [rdi + 0x128], rdx
    mov [rdi + 0xe8], r11
    xor eax, eax
    ret
1:  mov qword ptr fs:[rax], 0
    mov r8, rdi
    xor edi, edi
    xor esi, esi
    lea rdx, [r8 + 0x128]
    mov r10d, 8
    mov eax, 14
    syscall
    test rax, rax
    jnz 4f
    LANCET_UC_KNOWN
    mov rdx, [r8 + 0x128]
    mov ecx, fs:[0x2d0]
    cmp ecx, fs:[0x80]
    jne 2f
    cmp rdx, fs:[0x88]
    je 3f
    mov qword ptr [r8 + 0xe8], 0
    xor eax, eax
    ret
2:  mov fs:[0x80], ecx
3:  mov [r8 + 0xe8], r11
    mov fs:[rax], r11
    mov fs:[0x88], rdx
    xor eax, eax
    ret
4:  mov rdi, r8
    jmp [rip + lancet_ucontext_code + 4096]

    .balign 64
lancet_uc_set:
    mov r9, rdi
    LANCET_UC_MASK 2f
    cmp [r9 + 0xe8], r11
    jne 1f
    cmp [r9 + 0x128], rdx
    je 5f
    jmp 3f
    // Known, not marked.
1:  mov qword ptr fs:[rax], 0
    cmp [r9 + 0x128], rdx
    je 5f
    // Not known, or about to be another one.
2:  mov qword ptr fs:[rax], 0
3:  xor edx, edx
    LANCET_UC_SET
    test rax, rax
    jnz 6f
    LANCET_UC_KNOWN
    cmp [r9 + 0xe8], r11
    jne 4f
    mov ecx, fs:[0x2d0]
    mov fs:[0x80], ecx
    LANCET_UC_KNOW
    jmp 5f
4:  mov qword ptr fs:[rax], 0
5:  fnstcw [rsp - 8]
    fnstsw [rsp - 16]
    stmxcsr [rsp - 24]
    LANCET_UC_FP [rsp-8], [rsp-16], [rsp-24]
    LANCET_UC_GO
6:  mov rdi, r9
    jmp [rip + lancet_ucontext_code + 4104]

    .balign 64
lancet_uc_swap:
    LANCET_UC_SAVE
    mov r9, rsi
    LANCET_UC_MASK 3f
    mov [rdi + 0x128], rdx
    mov [rdi + 0xe8], r11
    cmp [r9 + 0xe8], r11
    jne 2f
    cmp [r9 + 0x128], rdx
    jne 1f
0:  LANCET_UC_FP [rdi+0x1a8], [rdi+0x1ac], [rdi+0x1c0]
    LANCET_UC_GO
    // Known, marked, another mask.
1:  mov r8, rdi
    xor edx, edx
    LANCET_UC_SET
    test rax, rax
    jnz 8f
    mov rdi, r8
    LANCET_UC_KNOWN
    LANCET_UC_KNOW
    jmp 0b
    // Known, not marked.
2:  mov qword ptr fs:[rax], 0
    cmp [r9 + 0x128], rdx
    je 0b
    // Not known, or not to be known.
3:  mov qword ptr fs:[rax], 0
    mov r8, rdi
    lea rdx, [rdi + 0x128]
    LANCET_UC_SET
    test rax, rax
    jnz 8f
    mov rdi, r8
    LANCET_UC_KNOWN
    mov rdx, [rdi + 0x128]
    mov ecx, fs:[0x2d0]
    cmp ecx, fs:[0x80]
    jne 4f
    cmp rdx, fs:[0x88]
    je 5f
    mov qword ptr [rdi + 0xe8], 0
    jmp 6f
4:  mov fs:[0x88], rdx
    mov fs:[0x80], ecx
5:  mov [rdi + 0xe8], r11
6:  cmp [r9 + 0xe8], r11
    jne 7f
    LANCET_UC_KNOW
    jmp 0b
7:  mov qword ptr fs:[rax], 0
    jmp 0b
8:  mov rdi, r8
    mov rsi, r9
    jmp [rip + lancet_ucontext_code + 4112]

    // Knows what the mask will be, and has the next switch ask whether it is.
    .balign 64
lancet_uc_sigmask:
    test rsi, rsi
    jz 9f
    mov r9, rdx
    LANCET_UC_MASK 4f
1:  mov rcx, [rsi]
    and rcx, ~0x40100
    mov r10, 0x180000000
    not r10
    and rcx, r10
    mov qword ptr fs:[rax], 0
    test edi, edi
    je 2f
    cmp edi, 1
    je 3f
    cmp edi, 2
    jne 8f
    mov fs:[0x88], rcx
    jmp 8f
2:  or rdx, rcx
    mov fs:[0x88], rdx
    jmp 8f
3:  not rcx
    and rdx, rcx
    mov fs:[0x88], rdx
    jmp 8f
    // Not known: what is it now?
4:  mov qword ptr fs:[rax], 0
    mov ecx, fs:[0x2d0]
    cmp ecx, fs:[0x80]
    jne 8f
    mov r8, rsi
    mov eax, edi
    mov [rsp - 24], rax
    xor edi, edi
    xor esi, esi
    lea rdx, [rsp - 16]
    mov r10d, 8
    mov eax, 14
    syscall
    mov rsi, r8
    mov edi, [rsp - 24]
    test rax, rax
    jnz 8f
    LANCET_UC_KNOWN
    mov rdx, [rsp - 16]
    cmp rdx, fs:[0x88]
    je 1b
8:  mov rdx, r9
9:  jmp [rip + lancet_ucontext_code + 4120]

    // The same without masks: the mask that is saved is that of the context that goes on.
    .balign 64
lancet_uc_lite_set:
    mov r9, rdi
    fnstcw [rsp - 8]
    fnstsw [rsp - 16]
    stmxcsr [rsp - 24]
    LANCET_UC_FP [rsp-8], [rsp-16], [rsp-24]
    LANCET_UC_GO

    .balign 64
lancet_uc_lite_swap:
    LANCET_UC_SAVE
    mov r9, rsi
    mov rdx, [r9 + 0x128]
    mov [rdi + 0x128], rdx
    LANCET_UC_FP [rdi+0x1a8], [rdi+0x1ac], [rdi+0x1c0]
    LANCET_UC_GO

    .org lancet_ucontext_code + 4096, 0xcc

    .balign 4
lancet_ucontext_table:
    .long lancet_uc_get - lancet_ucontext_code
    .long lancet_uc_set - lancet_ucontext_code
    .long lancet_uc_swap - lancet_ucontext_code
    .long lancet_uc_sigmask - lancet_ucontext_code
    .long lancet_uc_lite_set - lancet_ucontext_code
    .long lancet_uc_lite_swap - lancet_ucontext_code
    .purgem LANCET_UC_SAVE
    .purgem LANCET_UC_FP
    .purgem LANCET_UC_GO
    .purgem LANCET_UC_KNOWN
    .purgem LANCET_UC_MASK
    .purgem LANCET_UC_SET
    .purgem LANCET_UC_KNOW
    .popsection
    .globl lancet_ucontext_code
    .globl lancet_ucontext_table
"#
);
