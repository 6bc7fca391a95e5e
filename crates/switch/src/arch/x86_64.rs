//! The switch, for x86-64 with the System V calling convention.
//!
//! # One slot, one routine
//!
//! A coroutine and whoever resumed it never run at the same time, so one word is enough to find
//! the side that stands still: [`Base::link`] always holds the stack pointer of *the side that is not
//! running*. Resume and suspend are then the same
//! few instructions: save three words, exchange `rsp` with the link, take three words back.
//!
//! Which side that is, the lowest bit of the link says: it is set while the coroutine stands still ([`SUSPENDED`]). A resume
//! takes it off where it takes the words back, a suspend puts it on, so neither stores more for it. Whoever has a suspender
//! can ask it ([`is_running`]), because nothing but this bit tells one side's words from the other's, and what each side
//! takes for a value of its type came from the other.
//!
//! Higher addresses are at the top of every picture.
//!
//! ```text
//! 1. prepared: made, never resumed             2. running: resume() has switched in
//!
//!    coroutine            resumer                 coroutine            resumer
//!   ┌─────────────┐      ┌─────────────┐         ┌─────────────┐      ┌─────────────┐
//!   │ mark        │      │ frames      │         │ mark        │      │ frames      │
//!   ├─────────────┤      │             │         ├─────────────┤      ├─────────────┤
//!   │ the body's  │      └─────────────┘ rsp     │ the body's  │      │ rbx         │
//!   │ closure     │                              │ closure     │      │ resume here │
//!   ├─────────────┤                              ├─────────────┤   ┌─►│ rbp         │
//!   │ (aligns)    │                              │ into `start`│   │  └─────────────┘
//!   │ 0           │ for rbx                      ├─────────────┤   │
//!   │ `start`     │ where the first jmp lands    │ entry, body…│   │
//!   │ &Base       │◄─┐ for rbp                   └─────────────┘ rsp
//!   └─────────────┘  │                                             │
//!    Base: link ─────┘                            Base: link ──────┘
//!
//! 3. suspended: suspend() has switched back    4. finished: the last switch; nothing of the stack
//!                                                 is read again once the result was moved out
//!   ┌─────────────┐      ┌─────────────┐         ┌─────────────┐      ┌─────────────┐
//!   │ mark        │      │ frames      │         │ mark        │      │ frames      │
//!   ├─────────────┤      │             │         ├─────────────┤      │             │
//!   │ closure     │      └─────────────┘ rsp     │ result      │      └─────────────┘ rsp
//!   ├─────────────┤                              │             │
//!   │ entry, body…│                              └─────────────┘
//!   ├─────────────┤                               Base: link, stale
//!   │ rbx         │
//!   │ resume here │
//!   │ rbp         │◄─┐
//!   └─────────────┘  │
//!    Base: link ─────┘
//! ```
//!
//! # What is saved
//!
//! `rbx`, `rbp` and the address to go on at are pushed. `r12`–`r15` and every caller-saved register
//! are declared clobbered, so the compiler saves those that hold something, and only those. The
//! mask of signals is not touched: that is the system call this crate exists to avoid. `mxcsr` and
//! the x87 control word belong to the callee in the ABI, but hardly any program changes them: they
//! travel only on request, in [`crate::fp`]. The direction flag is clear by the ABI on both sides.
//!
//! `pop; jmp` ends the switch, not `ret`: the return predictor remembers the call that made this
//! frame, not the switch, and a `ret` here is mispredicted every time (7.5 against 2.4 ns).
//!
//! # Backtraces
//!
//! `base`, the outermost frame of every coroutine, carries unwind rules that lead on into the
//! resumer: with `rbp = &link`, the caller's frame starts at `*link + 24`, just above the three
//! words in picture 2. Frame-pointer walkers (`perf record --call-graph fp`) get the same answer,
//! because `link` and the word after it have the shape of a frame record, and so have the lowest
//! two of the three words. gdb refuses a backtrace whose addresses do not grow outwards unless the
//! frame is a signal frame, which changes stacks by nature: `base` says it is one.
//!
//! Between the pushes of an inlined switch the compiler's unwind rules are off by up to three
//! words (assembly inside a function cannot know whether they count from `rsp` or `rbp`). A sampler
//! that hits one of those instructions sees a wrong caller once; a suspended or resuming stack is
//! always right.

use core::arch::{asm, naked_asm};

use super::{Base, Entry};
use crate::value::Word;

/// Alignment of a stack's top, of [`Base`] and of the closure below it.
pub const ALIGN: usize = 16;

/// What is added to a link that leads to the coroutine's own side. Stack pointers are multiples of 8, so it is the lowest bit.
pub const SUSPENDED: usize = 1;

/// Writes picture 1 below `base` and links it. `data` is the lowest address in use so far.
///
/// # Safety
///
/// `base` must be a writable [`Base`], and `data`, a multiple of [`ALIGN`], have at least 32 bytes of
/// a stack below it that nobody else uses.
#[inline(always)]
pub unsafe fn prepare(base: *mut Base, data: usize, entry: Entry) {
    let sp = core::ptr::with_exposed_provenance_mut::<usize>(data - 32);
    // SAFETY: the caller promises a writable Base and room for the image below `data`.
    unsafe {
        sp.add(0).write(base.expose_provenance());
        // One byte in, as a return address is behind its call: unwinders look up the byte before.
        sp.add(1).write(start as *const () as usize + 1);
        sp.add(2).write(0);
        (*base).record = start as *const () as usize;
        (*base).entry = entry;
        (*base).link = sp.addr() + SUSPENDED;
    }
}

/// Writes what [`start`] needs, to be entered once more by a jump and not by a switch: the coroutine runs, and its link stays
/// as it is. Returns the `rip`, `rsp` and `rbp` of that jump.
///
/// # Safety
///
/// As [`prepare`]; and nobody needs a frame of the coroutine any more.
pub unsafe fn prepare_again(base: *mut Base, data: usize, entry: Entry) -> (usize, usize, usize) {
    let sp = core::ptr::with_exposed_provenance_mut::<usize>(data - 16);
    // SAFETY: the caller promises a writable Base and room below `data`.
    unsafe {
        sp.write(0);
        (*base).entry = entry;
    }
    (
        start as *const () as usize,
        sp.addr(),
        base.expose_provenance(),
    )
}

/// An image that refuses: who switches to it ends the process. It stands in for another link.
#[repr(C, align(16))]
pub struct Refusal {
    words: [usize; 4],
}

impl Refusal {
    /// Makes the image that stands in for `link`. It may be moved until [`Refusal::link`] is called.
    pub fn new(link: usize) -> Self {
        Refusal {
            // The end of the chain for walkers of frame pointers, and where the switch goes on. The rest no switch reads.
            words: [0, refused as *const () as usize, link, 0],
        }
    }

    /// Returns the link for which an image stands in, if `link` leads to one.
    ///
    /// # Safety
    ///
    /// `link` must be that of a live coroutine, and nobody switch to it meanwhile.
    pub unsafe fn stands_for(link: usize) -> Option<usize> {
        let words = core::ptr::with_exposed_provenance::<usize>(link);
        // SAFETY: at a link are the three words that a switch has pushed or `prepare` has written, or a Refusal.
        unsafe {
            let goes_on = words.add(1).read();
            (goes_on == refused as *const () as usize).then(|| words.add(2).read())
        }
    }

    /// Returns the link of the image, good as long as the value stays where it is.
    pub fn link(&mut self) -> usize {
        (&raw mut self.words).expose_provenance()
    }
}

/// Where a switch to a [`Refusal`] lands, with `rsp` in the image; for unwinders the end of the stack.
#[unsafe(naked)]
unsafe extern "C" fn refused() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "and rsp, -16",
        "call {refuse}",
        "ud2",
        ".cfi_endproc",
        refuse = sym super::refuse,
    )
}

/// Switches from the resumer to the coroutine that stands in `base.link`; `value` and `tag` arrive over there, and what is
/// returned came from there.
///
/// # Safety
///
/// `base.link` must hold what [`prepare`] or [`suspend`] has left, its stack must be alive and not running anywhere, and both
/// sides must agree on what `value` is.
#[inline(always)]
pub unsafe fn resume(base: *mut Base, value: Word, tag: usize) -> (Word, usize) {
    let (value_back, tag_back);
    // SAFETY: three words are pushed on a stack the compiler knows to be in use (no `nostack`), the other side takes back
    // exactly what it pushed before (or what `prepare` wrote), and every register that survives neither is declared. The
    // caller promises the link, which is marked.
    unsafe {
        asm!(
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "push rbp",
            "mov rax, [rdx]",
            "mov [rdx], rsp",
            // Two pops, from where the mark leaves the stack pointer: nothing waits for its removal.
            "mov rbp, [rax - {mark}]",
            "mov rcx, [rax - {mark} + 8]",
            "lea rsp, [rax - {mark} + 16]",
            "jmp rcx",
            // Not the last instruction of the block: an unwinder that comes through a signal frame
            // looks up this very address, which must still lie in the function.
            "2:",
            "pop rbx",
            mark = const SUSPENDED,
            inlateout("rdi") value => value_back,
            inlateout("rsi") tag => tag_back,
            in("rdx") base,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    (value_back, tag_back)
}

/// Switches from the coroutine to its resumer, which stands in `base.link`, as [`resume`] does the other way round.
///
/// # Safety
///
/// `base.link` must hold what [`resume`] has left, or lead to a [`Refusal`]; for the rest as [`resume`].
#[inline(always)]
pub unsafe fn suspend(base: *mut Base, value: Word, tag: usize) -> (Word, usize) {
    let (value_back, tag_back);
    // SAFETY: as in `resume`; the link is not marked.
    unsafe {
        asm!(
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "push rbp",
            "mov rax, [rdx]",
            "lea rcx, [rsp + {mark}]",
            "mov [rdx], rcx",
            "mov rsp, rax",
            "pop rbp",
            "pop rax",
            "jmp rax",
            // As in `resume`.
            "2:",
            "pop rbx",
            mark = const SUSPENDED,
            inlateout("rdi") value => value_back,
            inlateout("rsi") tag => tag_back,
            in("rdx") base,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    (value_back, tag_back)
}

/// Returns whether a coroutine has a resumer to go back to, so whether it runs: here, or in a stack to which it has gone on.
///
/// # Safety
///
/// The coroutine must be alive.
#[inline(always)]
pub unsafe fn is_running(base: *const Base) -> bool {
    // SAFETY: the caller promises a live Base, which only this thread uses.
    unsafe { (*base).link & SUSPENDED == 0 }
}

/// The last switch of a coroutine: leaves for `base.link` and saves nothing.
///
/// # Safety
///
/// As [`suspend`]; and nothing on this stack may still need its destructor.
#[inline(always)]
pub unsafe fn leave(base: *mut Base, value: Word, tag: usize) -> ! {
    // SAFETY: the link holds the resumer's three words, which are popped as it pushed them; this
    // stack is left for good, as the caller promises.
    unsafe {
        asm!(
            "mov rsp, [rdx]",
            "pop rbp",
            "pop rax",
            "jmp rax",
            in("rdi") value,
            in("rsi") tag,
            in("rdx") base,
            options(noreturn),
        );
    }
}

/// Where the first switch into a coroutine lands; stays its outermost frame.
///
/// In: `rbp` = `&base.link`, `rdi` = value, `rsi` = tag, `rsp` at the third word of the image.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",
        // DW_CFA_def_cfa_expression, 5 bytes: DW_OP_breg6 (rbp) 0, DW_OP_deref, DW_OP_plus_uconst 24
        ".cfi_escape 0x0f, 5, 0x76, 0x00, 0x06, 0x23, 24",
        ".cfi_offset rbx, -8",
        ".cfi_offset rip, -16",
        ".cfi_offset rbp, -24",
        "nop",
        "pop rbx",
        "mov rdx, rbp",
        // The image is 32 bytes below an aligned `data` and 24 are popped: one more word aligns.
        "sub rsp, 8",
        "call [rbp + {entry}]",
        "ud2",
        ".cfi_endproc",
        entry = const core::mem::offset_of!(Base, entry),
    )
}

/// Whether this thread runs with a shadow stack (CET): `rdssp` is a no-op that keeps its operand
/// where there is none.
#[inline]
pub fn shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: reads a register into another; a hint no-op on every older processor.
    unsafe {
        asm!("xor eax, eax", "rdsspq rax", out("rax") pointer, options(nomem, nostack));
    }
    pointer != 0
}

/// Returns the stack pointer. The address of a variable would not do: AddressSanitizer keeps variables elsewhere.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register into another.
    unsafe {
        asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Ends the process by an instruction that the processor refuses: SIGILL.
#[cfg(not(feature = "std"))]
pub fn trap() -> ! {
    // SAFETY: does not go on.
    unsafe { asm!("ud2", options(noreturn)) }
}
