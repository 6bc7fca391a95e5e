//! Holds a process by a descriptor (pidfd_open(2), Linux 5.3), which never refers to another process that gets the same id later.
//! Used by `ending` and `interrupted::sockets`, and by most crates above.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A process that is held by a descriptor.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this id now.
    ///
    /// # Errors
    /// There is no such process (`ESRCH`), or the kernel has no such descriptors.
    pub fn open(pid: i32) -> Result<Self> {
        // SAFETY: takes two integers; the result is a new descriptor or -1.
        let made = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        Ok(PidFd(owned(made)?))
    }

    /// Opens the process to [duplicate](Self::duplicate) its descriptors. Those of a process whose first thread has ended are had by
    /// another of its threads only, which the kernel lets us name since Linux 6.9 (`PIDFD_THREAD`).
    ///
    /// # Errors
    /// As for [`PidFd::open`]; `EINVAL` if only a newer kernel could do it.
    pub fn of_descriptors(pid: i32) -> Result<Self> {
        /// `PIDFD_THREAD` (include/uapi/linux/pidfd.h).
        const THREAD: libc::c_int = libc::O_EXCL;
        let tid = crate::proc_file::shown_by(pid);
        if tid == pid {
            return Self::open(pid);
        }
        // SAFETY: takes two integers; the result is a new descriptor or -1.
        let made = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, THREAD) };
        Ok(PidFd(owned(made)?))
    }

    /// Duplicates a descriptor of the process (pidfd_getfd(2), Linux 5.6). The duplicate refers to the same open file: one that the
    /// process has opened with `O_PATH`, or for reading only, allows us no more.
    ///
    /// # Errors
    /// It has no such descriptor, we may not trace it, or the kernel, or a filter of ours, does not know the call.
    pub fn duplicate(&self, number: RawFd) -> Result<File> {
        // SAFETY: takes three integers; the result is a new descriptor or -1.
        let made = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), number, 0) };
        Ok(File::from(owned(made)?))
    }

    /// Ends the process by SIGKILL; one that has ended already is no error.
    ///
    /// # Errors
    /// We may not send it a signal.
    pub fn kill(&self) -> Result<()> {
        let number = self.0.as_raw_fd();
        // SAFETY: takes integers and, for the signal's data, a null pointer, which stands for what kill(2) sends.
        let sent =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, libc::SIGKILL, 0, 0) };
        match Error::last_os_error() {
            error if sent != 0 && error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the wait status with which the process ended; `None` if its parent has not waited for it yet, or the kernel does not
    /// tell (before Linux 6.15).
    pub fn exit_status(&self) -> Option<i32> {
        /// `PIDFD_INFO_EXIT`.
        const EXIT: u64 = 1 << 3;
        /// Words of `struct pidfd_info` in its first version; the last half word is `exit_code`.
        const WORDS: usize = 8;
        /// `_IOWR(0xff, 11, struct pidfd_info)`.
        const GET_INFO: libc::c_ulong = 0xc000_ff0b | (WORDS as libc::c_ulong * 8) << 16;
        let mut info = [0u64; WORDS];
        info[0] = EXIT;
        // SAFETY: `info` is a live buffer of the size that the request names, and the kernel writes no more.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), GET_INFO, info.as_mut_ptr()) };
        (asked == 0 && info[0] & EXIT != 0).then_some((info[WORDS - 1] >> 32) as u32 as i32)
    }

    /// Waits at most `within` for the end of the process, and returns whether it has ended. Its parent may not have waited for it yet.
    pub fn has_ended(&self, within: Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut wanted = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
        matches!(poll(&mut wanted, timeout), Ok(1))
    }
}

/// Returns the descriptor that a system call has made, or its error.
fn owned(result: i64) -> Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us, and nothing else has it.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(Error::last_os_error()),
    }
}
