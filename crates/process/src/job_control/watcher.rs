//! The process that continues a lancet which was stopped while a guest stands still for it.

use super::Shared;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Between two looks, in nanoseconds. A guest stands for at most two of them.
const LOOK: i64 = 50_000_000;
/// After so many looks at which we were stopped in the same stop, although we were continued each time, we are killed.
const MOST: u32 = 40;

/// Shares memory with a new process that watches this one; `None` where that cannot be: then nobody watches.
pub fn start() -> Option<&'static Shared> {
    // SAFETY: a new mapping, zeros, which are a valid `Shared`; it is never unmapped.
    let shared: &'static Shared = unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            size_of::<Shared>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if at == libc::MAP_FAILED {
            return None;
        }
        &*at.cast()
    };
    let us = std::process::id() as i32;
    let path = path_of(us)?;
    // A child that tells nobody of its end: a wait for any child does not find it, and it is no job of a shell's.
    // SAFETY: a fork without exit signal; the child makes system calls only.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        -1 => None,
        // SAFETY: this is the child.
        0 => unsafe { watch(us, &path, shared) },
        _ => Some(shared),
    }
}

/// `/proc/PID/stat`, with its final NUL.
fn path_of(pid: i32) -> Option<[u8; 32]> {
    let mut text = String::new();
    write!(text, "/proc/{pid}/stat").ok()?;
    let mut path = [0; 32];
    path.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(path)
}

/// Watches until `parent` has ended.
///
/// # Safety
/// Only right after fork: it never returns, and makes async-signal-safe calls only.
unsafe fn watch(parent: i32, path: &[u8; 32], shared: &Shared) -> ! {
    // SAFETY: as promised; the buffers live as long as the calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"lancet-watcher".as_ptr());
        // Neither the terminal's signals nor the end of a pipe that we share are its business.
        libc::setsid();
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        libc::chdir(c"/".as_ptr());
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let (mut last, mut looks) = (0, 0);
        while libc::getppid() == parent {
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: LOOK,
            };
            libc::nanosleep(&raw const time, std::ptr::null_mut());
            let begun = shared.begun.load(Ordering::SeqCst);
            let stands = (1..super::STOPPING).contains(&shared.under_way.load(Ordering::SeqCst));
            if !stands || begun != last {
                (last, looks) = (begun, 0);
                continue;
            }
            if !is_stopped(path) {
                continue;
            }
            looks += 1;
            if looks > MOST {
                libc::kill(parent, libc::SIGKILL);
            } else {
                shared.pending.store(libc::SIGSTOP, Ordering::SeqCst);
                libc::kill(parent, libc::SIGCONT);
            }
        }
        libc::_exit(0)
    }
}

/// Whether the process is in a group stop. Not where a debugger has stopped it: that is its user's decision.
///
/// # Safety
/// `path` ends with a NUL.
unsafe fn is_stopped(path: &[u8; 32]) -> bool {
    let mut text = [0u8; 128];
    // SAFETY: as promised; the buffer is as long as is said.
    let length = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text.get(..length.max(0) as usize).unwrap_or_default();
    // The name, in parentheses, may have some in it.
    let name = text.iter().rposition(|byte| *byte == b')');
    name.is_some_and(|end| text.get(end + 2) == Some(&b'T'))
}
