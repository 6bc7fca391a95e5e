//! A tracer that is not the parent of the program that it starts (strace's `-D`). Used by `tracee`.
//!
//! ```text
//!   lancet ── fork ──► between ── fork ──► the tracer, which all that follows is done in; init is its parent
//!     │                   └ ends                 │
//!     └ waits for its turn ◄───────────────────── traces it, and lets it go
//!     └ exec of the program, under the number that lancet was started with
//! ```
//!
//! The process that has started lancet then waits for the program itself, and the program sees no children but its own.

use super::{User, child, hold_child_signal, pipe, words_of};
use process::error::{Error, Result};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

/// Where the tracer is, relative to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The tracer is a grandchild of the process that becomes the program, and not its parent.
    Grandchild,
    /// The same, in a process group of its own: signals to the program's group do not reach it.
    Group,
    /// The same, in a session of its own: it does not end with the program's session.
    Session,
}

/// A process that waits to become a program.
pub(super) struct Waiting {
    pub pid: i32,
    /// Writing a byte here lets it go on.
    pub go: OwnedFd,
    /// If it could not run the program, an `errno` of four bytes can be read here; otherwise the end of the file.
    pub failure: OwnedFd,
}

/// The process that lancet was before [`go_behind`], until the program is launched.
static BEFORE: Mutex<Option<Waiting>> = Mutex::new(None);

/// Takes the process that waits to become the next launched program, if [`go_behind`] was called.
pub(super) fn take() -> Option<Waiting> {
    BEFORE.lock().ok()?.take()
}

/// Goes on in a grandchild of this process. This process itself waits, and becomes the program as soon as
/// [`Tracee::launch`](super::Tracee::launch) lets it; for it the function does not return.
///
/// # Errors
/// Another thread exists already, which would be missing in the grandchild, or the kernel makes no process.
pub fn go_behind(command: &[OsString], user: Option<User>, how: Behind) -> Result<()> {
    let why = match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => None,
        Ok(_) => Some("lancet has several threads already"),
        Err(_) => Some("/proc is of another PID namespace, or cannot be read"),
    };
    if let Some(why) = why {
        let error = io::Error::other(why);
        return Err(Error::system("going behind the program (-D)", error));
    }
    let words = words_of(command)?;
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let mask = hold_child_signal();
    let (wait, go) = pipe()?;
    let (failure, fail) = pipe()?;
    // SAFETY: this process has one thread, so its children are complete copies; the other calls take integers.
    unsafe {
        let pid = libc::getpid();
        // Where Yama lets only ancestors trace (ptrace_scope 1), this allows us nevertheless. An error means that there is no Yama.
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
        match libc::fork() {
            -1 => return Err(Error::system("fork", io::Error::last_os_error())),
            0 => {}
            between => {
                libc::waitpid(between, std::ptr::null_mut(), 0);
                child(&pointers, user.as_ref(), &mask, &[&wait, &go, &fail]);
            }
        }
        match libc::fork() {
            0 => {}
            // Without a grandchild, the waiting process finds its pipe closed, and runs the program alone.
            _ => libc::_exit(0),
        }
        let (call, moved) = match how {
            Behind::Grandchild => ("", 0),
            Behind::Group => ("setpgid", libc::setpgid(0, 0)),
            Behind::Session => ("setsid", libc::setsid()),
        };
        if moved == -1 {
            return Err(Error::system(call, io::Error::last_os_error()));
        }
        if let Ok(mut before) = BEFORE.lock() {
            *before = Some(Waiting { pid, go, failure });
        }
    }
    Ok(())
}
