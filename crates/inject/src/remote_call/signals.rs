//! Which signals may come to a thread that makes a remote call, and how one is sent again.

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
