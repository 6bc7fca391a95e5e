//! A descriptor, from the number that a system call gave.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes what a system call that makes a descriptor returned just now: below 0 it failed, and `errno` says why.
///
/// # Safety
///
/// The number is the result of such a call, and nobody else has it.
pub(crate) unsafe fn owned(fd: i64) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: the caller's promise, word for word.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
