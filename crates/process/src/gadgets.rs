//! Finding instructions in a process by their bytes. Used by the crates `hooks`, `inject`, `calls` and `enter`.
//!
//! A remote call (`inject`) needs two sequences of instructions that nearly every process has somewhere: a system call
//! followed by a return, and the return from a signal handler. No symbol leads to them reliably (`__restore_rt` is
//! local, libc is often stripped), but their bytes are fixed. Any place will do, also one within a longer instruction.

use memchr::memmem;
use std::ops::Range;

use crate::maps::Maps;

/// The instructions `syscall; ret`.
pub const SYSCALL_RETURN: &[u8] = &[0x0f, 0x05, 0xc3];

/// The instructions `mov $15, %rax; syscall`, with which `__restore_rt` of glibc and musl begins; 15 is `rt_sigreturn`.
pub const RESTORE_RT: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Finds `syscall; ret` in a range, which is the agent's own code.
pub fn within(memory: &dyn vm::Memory, range: Range<u64>) -> Option<u64> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read(range.start, &mut bytes).ok()?;
    let found = memmem::find(&bytes, SYSCALL_RETURN)?;
    Some(range.start + found as u64)
}

/// Bytes that are read by one system call.
const PIECE: u64 = 256 << 10;

/// Returns the addresses of `bytes` in the executable mappings of a guest, searched for while the iterator advances:
/// code of files first (a JIT may free its own at any time), by rising address. Memory that cannot be read is passed
/// over.
pub fn find<'a>(
    memory: &'a dyn vm::Memory,
    maps: &'a Maps,
    bytes: &'a [u8],
) -> impl Iterator<Item = u64> + 'a {
    let executable = || maps.iter().filter(|mapping| mapping.permissions.execute);
    let from_files = executable().filter(|mapping| mapping.is_file());
    let others = executable().filter(|mapping| !mapping.is_file());
    from_files.chain(others).flat_map(move |mapping| {
        let pieces = (mapping.start..mapping.end).step_by(PIECE as usize);
        pieces.flat_map(move |start| {
            // A match may begin in this piece and end in the next one.
            let overlap = bytes.len().saturating_sub(1) as u64;
            let end = start.saturating_add(PIECE + overlap).min(mapping.end);
            let mut piece = vec![0; (end - start) as usize];
            let readable = !bytes.is_empty() && memory.read(start, &mut piece).is_ok();
            let found: Vec<u64> = if readable {
                memmem::find_iter(&piece, bytes)
                    .map(|at| start + at as u64)
                    .collect()
            } else {
                Vec::new()
            };
            found
        })
    })
}
