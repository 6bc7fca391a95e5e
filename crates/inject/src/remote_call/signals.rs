//! Which signals may come to a thread that makes a remote call, and how one is sent again. Used by `while_others_run`
//! and `remote_call`.

use process::guest::Status;
use process::status_file::StatusFile;

/// Signals of faults, which are never blocked because faults of our own calls must be seen.
pub(super) const SYNCHRONOUS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// Returns [`SYNCHRONOUS`] as a signal mask; bit 0 is signal 1.
pub(super) fn synchronous_mask() -> u64 {
    SYNCHRONOUS
        .iter()
        .fold(0, |mask, signal| mask | 1u64 << (signal - 1))
}

/// Sends a signal again that was taken from thread `tid`: to the thread if it was directed to it, otherwise to the
/// process. The sender stays the same; its origin (`SI_USER`, `SI_TKILL`) becomes that of sigqueue(3), because the
/// kernel lets no process send the others in another's name (`do_rt_sigqueueinfo`, kernel/signal.c).
pub(super) fn send_again(pid: i32, tid: i32, mut sent: libc::siginfo_t) {
    let to_thread = sent.si_code == libc::SI_TKILL;
    if to_thread || sent.si_code == libc::SI_USER {
        sent.si_code = libc::SI_QUEUE;
    }
    let (signal, sent) = (sent.si_signo, &raw const sent);
    // SAFETY: the calls take integers and the address of `sent`, which lives through them and is only read.
    unsafe {
        if to_thread {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, sent);
        } else {
            libc::syscall(libc::SYS_rt_sigqueueinfo, pid, signal, sent);
        }
    }
}

/// Sends a signal again to one thread of a process, in the name of its sender. Returns whether that was possible.
pub(super) fn send_to_thread(pid: i32, tid: i32, mut sent: libc::siginfo_t) -> bool {
    // See `send_again`; the kernel's own origins are not taken either.
    if sent.si_code >= 0 || sent.si_code == libc::SI_TKILL {
        sent.si_code = libc::SI_QUEUE;
    }
    let (signal, sent) = (sent.si_signo, &raw const sent);
    // SAFETY: the call takes integers and the address of `sent`, which lives through it and is only read.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, sent) == 0 }
}

/// Whether a process has a handler for a signal (`SigCgt` in `/proc/PID/status`).
pub(super) fn has_handler(pid: i32, signal: i32) -> bool {
    let status = StatusFile::of(pid).unwrap_or_default();
    let caught = status.bits("SigCgt");
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

/// Clock ticks since boot, as the start of a process is told (`/proc/PID/stat`, field 22).
pub(super) fn ticks_since_boot() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the first call writes to `now`, a live value of this frame; the second takes an integer.
    let a_second = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
        libc::sysconf(libc::_SC_CLK_TCK).max(1) as u64
    };
    now.tv_sec as u64 * a_second + now.tv_nsec as u64 * a_second / 1_000_000_000
}

/// Whether a SIGCHLD tells of a child that began at that time or later. The number is the guest's; one of another PID namespace is taken
/// for an older child.
pub(super) fn began_since(sent: &libc::siginfo_t, since: u64) -> bool {
    // SAFETY: the kernel has filled the structure, which consists of integers.
    let child = unsafe { sent.si_pid() };
    Status::read(child).is_ok_and(|child| child.start >= since)
}
