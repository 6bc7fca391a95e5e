//! A tracer that is not the parent of the program that it starts (strace's `-D`).
//!
//! ```text
//!   lancet ── fork ──► between ── fork ──► the tracer, which all that follows is done in; init is its parent
//!     │                   └ ends                 │
//!     └ waits for its turn ◄───────────────────── traces it, and lets it go
//!     └ exec of the program, under the number that lancet was started with
//! ```
//!
//! Whoever has started lancet waits for the program itself, and nothing but its own children is there for the program to see.

use super::{User, child, hold_child_signal, pipe, words_of};
use process::error::{Error, Result};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

/// Where the tracer is to be, beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The tracer is a grandchild of the process that becomes the program, and not its parent.
    Grandchild,
    /// The same, in a process group of its own: what is sent to the program's does not reach it.
    Group,
    /// The same, in a session of its own: it does not end with the program's.
    Session,
}

/// A process that waits to become a program.
pub(super) struct Waiting {
    pub pid: i32,
    /// A byte that is written here lets it go on.
    pub go: OwnedFd,
    /// If it could not run the program, an `errno` of four bytes is read from here; else the end of the file.
    pub failure: OwnedFd,
}

/// The process that we were, until the program is launched.
static BEFORE: Mutex<Option<Waiting>> = Mutex::new(None);

/// The process that waits to become the program that is launched next, if we have gone behind it.
pub(super) fn take() -> Option<Waiting> {
    BEFORE.lock().ok()?.take()
}

/// Goes on in a grandchild of this process. This one waits, and becomes the program as soon as [`Tracee::launch`](super::Tracee::launch)
/// lets it; it does not return from here.
///
/// # Errors
/// There is another thread already, which would not be in the grandchild, or the kernel makes no process.
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
    // SAFETY: this process has one thread, so that its children have all of it; the other calls take integers.
    unsafe {
        let pid = libc::getpid();
        // Where Yama lets ancestors alone trace (ptrace_scope 1): we will be none. An error means that there is no Yama.
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
            // Where there is no grandchild, the process that waits finds its pipe closed, and runs the program alone.
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
