//! Ownership of a file descriptor that a raw system call has made. Used by `events::connector`, `events::exits`,
//! `first_thread` and others.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes ownership of what a system call that makes a descriptor returned just now. Below 0 it failed, and `errno` says
/// why.
///
/// # Safety
///
/// The number is the result of such a call, and nothing else owns it.
pub(crate) unsafe fn owned(fd: i64) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: by this function's contract a system call has just returned this new descriptor and nothing else owns
        // it, so `OwnedFd` is its only owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
