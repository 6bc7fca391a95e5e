//! The signal frame that makes a thread go on as before after a remote call, even if lancet is gone. Used by
//! `remote_call` and `room`.
//!
//! Layouts: `struct ucontext` and `struct sigcontext_64` (Linux `include/uapi/asm-generic/ucontext.h`,
//! `arch/x86/include/uapi/asm/sigcontext.h`), `struct _fpx_sw_bytes` in the latter; the XSAVE area in
//! Intel's manual, volume 1, §13.4.

use process::ptrace::Registers;

/// Components 17 and 18 of the XSAVE area, the tiles of AMX.
const AMX: u64 = 3 << 17;
/// Which components are in use: first word of the XSAVE header.
const XSTATE_BV: usize = 512;
/// `sizeof(struct ucontext)`: flags and link 16, `stack_t` 24, `struct sigcontext_64` 256, signal mask 8.
pub(super) const UCONTEXT_SIZE: usize = 304;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// `struct fxregs_state`'s software bytes; ptrace puts XCR0 there, a signal frame `_fpx_sw_bytes`.
const SOFTWARE_BYTES: usize = 464;
/// FXSAVE area and XSAVE header: a shorter area has no extended state.
const LEAST_XSAVE: usize = 576;
/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS` and `UC_STRICT_RESTORE_SS` (arch/x86/include/uapi/asm/ucontext.h), as the kernel sets them.
const UC_FLAGS: u64 = 7;
/// No valid `ss_flags`: the kernel then leaves the alternate signal stack as it is.
const KEEP_ALTERNATE_STACK: u32 = 0x10;

/// Converts an XSAVE area as ptrace returns it to the form of a signal frame.
pub(super) fn signal_xsave(state: &[u8]) -> Option<Vec<u8>> {
    if state.len() < LEAST_XSAVE {
        return None;
    }
    let word = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().expect("eight bytes"));
    let enabled = word(SOFTWARE_BYTES);
    let in_use = word(XSTATE_BV);
    // The kernel refuses a frame larger than the thread may have, and a thread that never asked for
    // AMX has no room for its tiles although ptrace shows them.
    let features = if in_use & AMX == 0 {
        enabled & !AMX
    } else {
        enabled
    };
    let size = (2..63)
        .filter(|bit| features & (1u64 << bit) != 0)
        .map(|bit| {
            let leaf = std::arch::x86_64::__cpuid_count(0xd, bit);
            (leaf.eax + leaf.ebx) as usize
        })
        .fold(LEAST_XSAVE, usize::max);
    let mut area = state.get(..size)?.to_vec();
    area[SOFTWARE_BYTES..512].fill(0);
    area[SOFTWARE_BYTES..SOFTWARE_BYTES + 4].copy_from_slice(&MAGIC1.to_le_bytes());
    area[SOFTWARE_BYTES + 4..SOFTWARE_BYTES + 8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
    area[SOFTWARE_BYTES + 8..SOFTWARE_BYTES + 16].copy_from_slice(&features.to_le_bytes());
    area[SOFTWARE_BYTES + 16..SOFTWARE_BYTES + 20].copy_from_slice(&(size as u32).to_le_bytes());
    area.extend_from_slice(&MAGIC2.to_le_bytes());
    Some(area)
}

/// Returns the bytes of the `struct ucontext` from which `rt_sigreturn` restores these registers, the signal mask `mask` and
/// the XSAVE area at address `xsave`.
pub(super) fn ucontext(saved: &Registers, mask: u64, xsave: u64) -> [u8; UCONTEXT_SIZE] {
    let (rip, rax) = home_of(saved);
    let segments = (saved.cs & 0xffff) | (saved.ss & 0xffff) << 48;
    let mut bytes = [0; UCONTEXT_SIZE];
    let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(0, UC_FLAGS);
    put(24, u64::from(KEEP_ALTERNATE_STACK));
    let general = [
        saved.r8,
        saved.r9,
        saved.r10,
        saved.r11,
        saved.r12,
        saved.r13,
        saved.r14,
        saved.r15,
        saved.rdi,
        saved.rsi,
        saved.rbp,
        saved.rbx,
        saved.rdx,
        rax,
        saved.rcx,
        saved.rsp,
        rip,
        saved.eflags,
        segments,
    ];
    for (index, word) in general.into_iter().enumerate() {
        put(40 + 8 * index, word);
    }
    put(224, xsave);
    put(296, mask);
    bytes
}

/// Whether these bytes are the result of [`ucontext`] for an XSAVE area at that address.
pub(super) fn is_ucontext(bytes: &[u8], xsave: u64) -> bool {
    let word = |at: usize| bytes[at..at + 8] == xsave.to_le_bytes();
    bytes[..8] == UC_FLAGS.to_le_bytes() && word(224)
}

/// Returns where a thread continues, and with which rax, when `rt_sigreturn` brings it back. A thread that was
/// taken out of a blocking system call holds one of the kernel's restart codes (include/linux/errno.h).
fn home_of(saved: &Registers) -> (u64, u64) {
    if saved.orig_rax as i64 >= 0 {
        match saved.rax as i64 {
            // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: the call is made again, from its two-byte instruction.
            -514..=-512 => return (saved.rip - 2, saved.orig_rax),
            // ERESTART_RESTARTBLOCK: `rt_sigreturn` drops the restart block, so the result is EINTR, as after a handler.
            -516 => return (saved.rip, -libc::EINTR as u64),
            _ => {}
        }
    }
    (saved.rip, saved.rax)
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::ptrace::Registers;

    /// The word of a return frame in which a register is (`struct sigcontext_64`): its index among those from r8 on.
    fn returns_with(saved: &Registers, index: usize) -> u64 {
        let frame = ucontext(saved, 0, 0x1000);
        let at = 40 + 8 * index;
        u64::from_le_bytes(frame[at..at + 8].try_into().expect("a word"))
    }

    /// Where lancet dies, the kernel alone brings a thread back: a call that a stop has interrupted is made again, or answers EINTR as after a
    /// handler; every other result is the program's.
    #[test]
    fn an_interrupted_call_is_made_again_without_us() {
        const RAX: usize = 13;
        const RIP: usize = 16;
        const CALL: i64 = 35;
        let made_again = (0x1_0000 - 2, CALL);
        for (result, call, expected) in [
            (-512, CALL, made_again),
            (-513, CALL, made_again),
            (-514, CALL, made_again),
            (-516, CALL, (0x1_0000, -i64::from(libc::EINTR))),
            (-4, CALL, (0x1_0000, -4)),
            (7, CALL, (0x1_0000, 7)),
            // In no system call the same number is just one of the program's.
            (-512, -1, (0x1_0000, -512)),
        ] {
            // SAFETY: all zeros is a valid value of this struct of plain words.
            let mut saved: Registers = unsafe { std::mem::zeroed() };
            (saved.rip, saved.rax, saved.orig_rax) = (0x1_0000, result as u64, call as u64);
            let (rip, rax) = (returns_with(&saved, RIP), returns_with(&saved, RAX) as i64);
            assert_eq!(
                (rip, rax),
                (expected.0, expected.1),
                "{result} of call {call}"
            );
        }
    }
}
