//! A file in memory that a process of ours shares with the command (memfd_create(2)). Used by `calls::share`.

use super::{MMAP, address, syscall};

const CLOSE: u64 = 3;
const MEMFD_CREATE: u64 = 319;
/// `MFD_CLOEXEC | MFD_ALLOW_SEALING`.
const FLAGS: u64 = 1 | 2;

/// Makes such a file; `name` ends with a zero.
pub fn make(name: &[u8]) -> Option<u64> {
    // SAFETY: the name is live and ends with a zero; the new descriptor is the caller's.
    address(unsafe { syscall(MEMFD_CREATE, name.as_ptr() as u64, FLAGS, 0, 0, 0, 0) })
}

/// Maps a part of it; the arguments and the answer are those of mmap(2).
///
/// # Safety
/// What is mapped at those addresses is the caller's, and may go.
pub unsafe fn map([at, bytes, protection, flags, file, offset]: [u64; 6]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { syscall(MMAP, at, bytes, protection, flags, file, offset) }
}

/// Closes it; what is mapped stays.
pub fn close(file: u64) {
    // SAFETY: the descriptor is the caller's.
    unsafe { syscall(CLOSE, file, 0, 0, 0, 0, 0) };
}
