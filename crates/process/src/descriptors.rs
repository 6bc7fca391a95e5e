//! The descriptors that lancet itself may have: as many as the kernel lets it, and a few in reserve. Used by
//! `proc_file`, `memory::by_calls` and others here, and by the crates `lancet` and `inject`.
//!
//! Most files of `/proc` are open only while they are read. Where no descriptor is left for that (`ulimit -n`, the limit of the whole
//! machine), a process that lives could neither be looked at nor be left: its threads could not be listed, so they could not be stopped,
//! and hooks would stay in its code. So [`keep_reserve`] opens a few descriptors that stand for nothing, and [`with_reserve`] gives one of
//! them back where opening a file fails for want of one. What stays open for long (the memory of a process, the rings) is opened without
//! it and fails before anything of the process was changed.
//!
//! [`raise_limit`] sets the soft limit to the hard one, because lancet has several descriptors open for each process that it follows. A
//! program that lancet starts gets the limit with which lancet was started ([`restore_limit`]): programs that use select(2), or that
//! close all descriptors up to the limit, depend on it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of descriptors in reserve. Opening a regular file takes two at a time, and a folder may be open meanwhile.
const RESERVED: usize = 4;

/// How many the reserve should hold: none before [`keep_reserve`].
static WANTED: AtomicUsize = AtomicUsize::new(0);
/// How many are missing. It is read before the lock is taken, because nearly always none is.
static MISSING: AtomicUsize = AtomicUsize::new(0);
static RESERVE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// The limits with which lancet was started, if the soft one was raised.
static AS_STARTED: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the soft limit of descriptors to the hard one. An error changes nothing: then the limit stays what it is.
pub fn raise_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read and write the live structure of this frame only.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0
            || limit.rlim_cur >= limit.rlim_max
        {
            return;
        }
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
            // An error is impossible, because this is called once.
            let _ = AS_STARTED.set(limit);
        }
    }
}

/// Sets the limit with which lancet was started, in a child that is about to become another program. It makes one system call and is
/// async-signal-safe (signal-safety(7)).
pub fn restore_limit() {
    if let Some(limit) = AS_STARTED.get() {
        // SAFETY: the call reads a structure that is never changed.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const *limit) };
    }
}

/// Has a program that is started by `command` get that limit too.
pub fn with_first_limit(command: &mut Command) -> &mut Command {
    // SAFETY: what runs in the child makes one async-signal-safe call, and reads what is never changed.
    unsafe {
        command.pre_exec(|| {
            restore_limit();
            Ok(())
        })
    }
}

/// Fills the reserve, as far as the limit allows, and keeps it filled from now on.
pub fn keep_reserve() {
    WANTED.store(RESERVED, Ordering::Relaxed);
    fill();
}

/// Whether a call has failed because no descriptor was left, to this process (EMFILE) or on the machine (ENFILE).
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Does `open`, and repeats it with a descriptor of the reserve for each that was missing. The files that it returns must be closed soon,
/// because until then the reserve is smaller.
///
/// # Errors
/// Those of `open`; a shortage of descriptors only where the reserve is used up too.
pub fn with_reserve<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    refill();
    loop {
        match open() {
            Err(error) if is_shortage(&error) => {
                let Some(spare) = reserve().pop() else {
                    return Err(error);
                };
                MISSING.fetch_add(1, Ordering::Relaxed);
                drop(spare);
            }
            done => return done,
        }
    }
}

/// Fills the reserve again where it was used, now that what was opened with it is closed.
pub fn refill() {
    if MISSING.load(Ordering::Relaxed) != 0 {
        fill();
    }
}

/// Opens a file for reading that is closed soon, with the reserve.
///
/// # Errors
/// Those of open(2).
pub fn open_briefly(path: impl AsRef<Path>) -> io::Result<File> {
    with_reserve(|| File::open(&path))
}

/// Whether half of the descriptors that we may have are still free after this one was opened: the kernel gives the lowest free number.
pub(crate) fn leaves_half(opened: &File) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes the live structure of this frame only.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 };
    known && (opened.as_raw_fd() as u64) < limit.rlim_cur / 2
}

/// Locks the reserve. A panic while the lock is held leaves the list intact, so the poison is ignored.
fn reserve() -> MutexGuard<'static, Vec<OwnedFd>> {
    RESERVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill() {
    let mut reserve = reserve();
    let wanted = WANTED.load(Ordering::Relaxed);
    while reserve.len() < wanted {
        // Each is a file of its own, so that it counts for the limit of the machine too.
        // SAFETY: the call takes two integers; the result is a new descriptor or -1.
        let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if made < 0 {
            break;
        }
        // SAFETY: the kernel has just made this descriptor for us, and nothing else has it.
        reserve.push(unsafe { OwnedFd::from_raw_fd(made) });
    }
    MISSING.store(wanted.saturating_sub(reserve.len()), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Status;
    use crate::maps::Maps;
    use crate::memory::GuestMemory;
    use crate::modules::open_regular;
    use crate::stop::thread_ids;

    /// Runs in a child of its own, because a limit holds for the whole process.
    fn in_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `work` alone and ends without any of the parent's destructors; it has one thread, and `work` uses no lock
        // that another thread of the test may hold but the allocator's, which glibc keeps usable over a fork.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!work())),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
                }
            }
        }
    }

    /// Opens files until none is left.
    fn use_up() -> Vec<File> {
        let limit = libc::rlimit {
            rlim_cur: 64,
            rlim_max: 64,
        };
        // SAFETY: the call reads the live structure of this frame only.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        std::iter::from_fn(|| File::open("/proc/self/stat").ok()).collect()
    }

    #[test]
    fn what_is_read_at_once_can_be_read_without_a_descriptor() {
        assert!(in_child(|| {
            keep_reserve();
            let _all = use_up();
            let us = std::process::id() as i32;
            // More often than the reserve has descriptors.
            (0..3 * RESERVED).all(|_| {
                thread_ids(us).is_ok_and(|threads| threads == [us])
                    && GuestMemory::open_briefly(us).is_ok()
                    && Maps::of(us).is_ok()
                    && Status::read(us).is_ok_and(|status| !status.is_gone())
            }) && File::open("/proc/self/stat").is_err_and(|error| is_shortage(&error))
                && open_regular(Path::new("/proc/self/exe")).is_err_and(|error| is_shortage(&error))
        }));
    }

    #[test]
    fn a_process_that_cannot_be_read_is_not_gone() {
        assert!(in_child(|| {
            let us = std::process::id() as i32;
            let Ok(status) = Status::read(us) else {
                return false;
            };
            // There is no reserve.
            let _all = use_up();
            let cannot_tell = |error: &crate::Error| matches!(error, crate::Error::System { error, .. } if is_shortage(error));
            !status.is_gone()
                && status
                    .check_current()
                    .is_err_and(|error| cannot_tell(&error))
                && cannot_tell(&crate::guest::missing_thread(us))
                && !crate::stop::thread_is_gone(us, us)
                && crate::guest::seccomp_mode(us, us).is_err_and(|error| cannot_tell(&error))
                && thread_ids(us).is_err_and(|error| cannot_tell(&error))
        }));
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let status = Status::read(child.id() as i32).expect("it lives");
        assert!(!status.is_gone());
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(status.is_gone());
        assert!(matches!(
            status.check_current(),
            Err(crate::Error::Gone(pid)) if pid == status.pid
        ));
        assert!(crate::stop::thread_is_gone(status.pid, status.pid));
    }

    #[test]
    fn the_limit_is_raised_and_given_back() {
        assert!(in_child(|| {
            let limit = |soft, hard| libc::rlimit {
                rlim_cur: soft,
                rlim_max: hard,
            };
            let set = limit(32, 77);
            let soft = || {
                let mut now = limit(0, 0);
                // SAFETY: the call writes the live structure of this frame only.
                unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut now) };
                now.rlim_cur
            };
            // SAFETY: the call reads the live structure of this frame only.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const set) };
            raise_limit();
            let raised = soft();
            restore_limit();
            raised == 77 && soft() == 32
        }));
    }
}
