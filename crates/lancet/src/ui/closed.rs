//! Standard streams that were closed when lancet was started (`>&-`). Used by `terminal`.
//!
//! A file that is opened gets the lowest free number, so it would become standard output, and results or messages would be written into it.
//! Rust's own beginning opens `/dev/null` for reading and writing at these numbers, where whatever is written is lost and said to be
//! written. So before that we open at them what cannot be written: the write fails with EBADF, and that is told. A program that we start
//! gets none of it (`O_CLOEXEC`): its streams are closed, as they would be without us.

/// Runs before Rust's own beginning.
#[used]
#[unsafe(link_section = ".init_array")]
static HOLD: extern "C" fn() = hold;

extern "C" fn hold() {
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: the calls take integers and texts that live for ever, and nothing of Rust's is needed for them. All lower numbers are
        // open, so the new descriptor gets this number.
        unsafe {
            if libc::fcntl(stream, libc::F_GETFD) != -1 {
                continue;
            }
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            if libc::open(c"/dev/null".as_ptr(), flags) == -1 {
                // A root without devices.
                libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            }
        }
    }
}

/// Whether a descriptor can be written at all.
pub fn is_writable(file: &impl std::os::fd::AsRawFd) -> bool {
    // SAFETY: takes integers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags != -1 && flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}
