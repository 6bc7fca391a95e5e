//! Bytes as a file, for readers that want one.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// A file in memory that holds `bytes`, and a path to it that is good while the file is open.
pub fn holding(bytes: &[u8]) -> (File, PathBuf) {
    let made = nix::sys::memfd::memfd_create(c"fuzz", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(made.expect("a file in memory"));
    file.write_all(bytes).expect("written");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, PathBuf::from(path))
}
