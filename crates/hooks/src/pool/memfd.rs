//! Takes over a file that a process has made by `memfd_create`, after checking that it really is such a file.
//!
//! We may be root while the process is another user's. The file's size and seals are changed through a duplicate of the
//! process's own descriptor, so the process could have changed them itself; and only after checks have shown that the file
//! is one that `memfd_create` makes with `MFD_ALLOW_SEALING`, empty and without a name.

use process::pidfd::PidFd;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Seals that forbid changing the size: lancet would die of SIGBUS when it read a page that was cut off.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// The kernel sets this one by itself where `vm.memfd_noexec` says so (Linux 6.3).
const SEAL_EXEC: i32 = 0x20;

/// Duplicates descriptor `number` of process `pid`, checks the file, gives it its size and seals it.
///
/// # Errors
/// The kernel has no `pidfd_getfd` (before Linux 5.6, or a filter of ours forbids it), the process has no such descriptor,
/// or what stands there is not an empty, unsealed memfd.
pub fn of_process(pid: i32, number: u64, bytes: u64) -> Result<File> {
    let number =
        RawFd::try_from(number).map_err(|_| not_ours("the descriptor has no valid number"))?;
    prepare(PidFd::of_descriptors(pid)?.duplicate(number)?, bytes)
}

/// Checks that a file is an empty, unsealed memfd, gives it its size and seals it.
fn prepare(file: File, bytes: u64) -> Result<File> {
    let fcntl = |command, argument: i32| {
        // SAFETY: neither command that is used here takes a pointer.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            -1 => Err(Error::last_os_error()),
            value => Ok(value),
        }
    };
    let before = file.metadata()?;
    if !before.is_file() || before.len() != 0 || before.nlink() != 0 {
        return Err(not_ours("it is not an empty file without a name"));
    }
    // Other files have no seals (EINVAL), O_PATH descriptors refuse the question (EBADF), files of a tmpfs have
    // F_SEAL_SEAL.
    if fcntl(libc::F_GET_SEALS, 0)? & !SEAL_EXEC != 0 {
        return Err(not_ours("it was not made to be sealed"));
    }
    file.set_len(bytes)?;
    fcntl(libc::F_ADD_SEALS, SEALS)?;
    // The process may have changed the size before the seals were set; afterwards it cannot.
    if fcntl(libc::F_GET_SEALS, 0)? & !SEAL_EXEC != SEALS || file.metadata()?.len() != bytes {
        return Err(not_ours("it was changed meanwhile"));
    }
    Ok(file)
}

fn not_ours(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    fn memfd(flags: u32) -> File {
        // SAFETY: a NUL-terminated name; the result is a new descriptor.
        let made =
            unsafe { libc::memfd_create(c"lancet-test".as_ptr(), flags | libc::MFD_CLOEXEC) };
        assert_ne!(made, -1, "{}", Error::last_os_error());
        // SAFETY: the kernel has just made this descriptor for us, and nothing else has it.
        unsafe { File::from_raw_fd(made) }
    }

    #[test]
    fn a_new_memfd_is_sized_and_sealed() {
        let file = memfd(libc::MFD_ALLOW_SEALING);
        let ours = of_process(std::process::id() as i32, file.as_raw_fd() as u64, 8192).unwrap();
        assert_eq!(ours.metadata().unwrap().len(), 8192);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 20).is_err());
    }

    #[test]
    fn what_is_no_such_file_is_left_as_it_is() {
        let path = std::env::temp_dir().join(format!("lancet-memfd-{}", std::process::id()));
        std::fs::write(&path, "content").unwrap();
        let open = |flags: i32| {
            File::options()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(&path)
                .unwrap()
        };
        let pid = std::process::id() as i32;
        let taken = |file: &File| of_process(pid, file.as_raw_fd() as u64, 4096);
        assert!(taken(&open(0)).is_err(), "a file with a name");
        assert!(taken(&open(libc::O_PATH)).is_err(), "a path");
        let unlinked = open(0);
        std::fs::remove_file(&path).unwrap();
        assert!(taken(&unlinked).is_err(), "a file that was deleted");
        unlinked.set_len(0).unwrap();
        assert!(taken(&unlinked).is_err(), "an empty file that was deleted");
        assert_eq!(unlinked.metadata().unwrap().len(), 0);
        assert!(taken(&memfd(0)).is_err(), "a memfd without seals");
        let used = memfd(libc::MFD_ALLOW_SEALING);
        used.set_len(1).unwrap();
        assert!(taken(&used).is_err(), "a memfd in use");
        assert_eq!(used.metadata().unwrap().len(), 1);
        assert!(of_process(pid, u64::MAX, 4096).is_err());
        assert!(of_process(pid, 1 << 20, 4096).is_err());
    }
}
