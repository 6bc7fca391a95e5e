//! The process that continues lancet when it is stopped while a guest stands still for it. Used by `job_control`.

use super::Shared;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Time between two checks in nanoseconds. A guest stands still for at most two of them.
const LOOK: i64 = 50_000_000;
/// Number of checks after which lancet is killed, if it was stopped in the same stop at each of them although it was
/// continued.
const MOST: u32 = 40;

/// Shares memory with a new process that watches this one. `None` if that is impossible; then there is no watcher.
pub fn start() -> Option<&'static Shared> {
    // SAFETY: a new mapping of zeros at an address of the kernel's choice; zeros are a valid `Shared`, and it is never
    // unmapped.
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
    // The child has no exit signal: a wait for any child does not find it, and no shell has it as a job.
    // SAFETY: a clone without flags copies the process as fork does; the child makes only system calls.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        -1 => None,
        // SAFETY: this runs in the new child, as `watch` requires, and `path` ends with a NUL.
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
/// Called only right after fork. It never returns, and makes only async-signal-safe calls.
unsafe fn watch(parent: i32, path: &[u8; 32], shared: &Shared) -> ! {
    // SAFETY: the caller has just forked; all calls are async-signal-safe, and the buffers live as long as the calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"lancet-watcher".as_ptr());
        // The watcher must not receive the terminal's signals.
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

/// Whether the process is in a group stop. A process that a debugger has stopped does not count, because that is its
/// user's decision.
///
/// # Safety
/// `path` ends with a NUL.
unsafe fn is_stopped(path: &[u8; 32]) -> bool {
    let mut text = [0u8; 128];
    // SAFETY: the caller guarantees that `path` ends with a NUL; the buffer is a live value of this frame, and its
    // length is passed with it.
    let length = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text.get(..length.max(0) as usize).unwrap_or_default();
    // The name in parentheses may contain parentheses itself, so the last one counts.
    let name = text.iter().rposition(|byte| *byte == b')');
    name.is_some_and(|end| text.get(end + 2) == Some(&b'T'))
}
