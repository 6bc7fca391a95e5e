//! Reads which system call a traced thread makes, when it stands at the start or the end of one. Used by crate `calls`.

use super::request;
use nix::errno::Errno;

const PTRACE_GET_SYSCALL_INFO: libc::c_uint = 0x420e;

/// Words of `struct ptrace_syscall_info` (include/uapi/linux/ptrace.h): operation and architecture, instruction pointer,
/// stack pointer, and a union of at most eight words.
const WORDS: usize = 11;
const ENTRY: u64 = 1;
const EXIT: u64 = 2;

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_I386` (include/uapi/linux/audit.h): of which table the call is.
const X86_64: u64 = 0xc000_003e;
const I386: u64 = 0x4000_0003;

/// A stop at a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtSystemCall {
    /// The address behind the `syscall` instruction.
    pub behind: u64,
    /// The thread's stack pointer there.
    pub stack: u64,
    /// Whether its number is one of the table for 32-bit programs.
    pub is_32_bits: bool,
    /// Which of the two stops it is.
    pub side: Side,
}

/// Which of a system call's two stops it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the start: the kernel has done nothing yet.
    Begins {
        /// The number of the call; the kernel uses 32 bits of it.
        number: u64,
        /// Its arguments, whatever the call takes.
        arguments: [u64; 6],
    },
    /// At the end: the kernel has made the call.
    Ends {
        /// What rax holds: a value, or an error's number, negated.
        result: u64,
    },
}

/// Returns where a thread stands that has stopped at a system call; `None` if this kernel's answer is not understood.
/// Kernels before 5.3 do not know the request (EIO).
pub fn system_call(tid: i32) -> Result<Option<AtSystemCall>, Errno> {
    let mut words = [0u64; WORDS];
    let place = (&raw mut words) as usize;
    request(PTRACE_GET_SYSCALL_INFO, tid, size_of_val(&words), place)?;
    let [first, behind, stack, rest @ ..] = words;
    let side = match (first & 0xff, rest) {
        (ENTRY, [number, a, b, c, d, e, f, _]) => Side::Begins {
            number,
            arguments: [a, b, c, d, e, f],
        },
        (EXIT, [result, ..]) => Side::Ends { result },
        _ => return Ok(None),
    };
    Ok(
        matches!(first >> 32, X86_64 | I386).then_some(AtSystemCall {
            behind,
            stack,
            is_32_bits: first >> 32 == I386,
            side,
        }),
    )
}
