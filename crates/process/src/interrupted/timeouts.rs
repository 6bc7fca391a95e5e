//! Which system calls have a timeout, and in which argument. Used by `interrupted`.

/// Where a call has its relative timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// It has none in its arguments, or the timeout is left as it is.
    Unchanged,
    /// Milliseconds as an `int` in this argument; negative = for ever.
    Milliseconds(usize),
    /// A `timespec` at the address in this argument, if that is not null.
    Timespec(usize),
}

/// The calls that have a timeout in their arguments.
const TIMED: [(i64, Timeout); 6] = [
    (libc::SYS_epoll_wait, Timeout::Milliseconds(3)),
    (libc::SYS_epoll_pwait, Timeout::Milliseconds(3)),
    (libc::SYS_epoll_pwait2, Timeout::Timespec(3)),
    (libc::SYS_semtimedop, Timeout::Timespec(3)),
    (libc::SYS_io_getevents, Timeout::Timespec(4)),
    (libc::SYS_rt_sigtimedwait, Timeout::Timespec(2)),
];

/// Returns where a call has its timeout that is made again after EINTR; `None` = it is not made again, or this is the number of no call.
///
/// EINTR means that nothing has been done, whichever call answers it: one that has moved a byte answers how many. `connect` on a connection
/// that it has begun waits for that one (`__inet_stream_connect`, net/ipv4/af_inet.c). Not so `close`, which has closed the descriptor, and
/// `restart_syscall`, which is no call of the program's.
pub(super) fn timeout_of(number: i64) -> Option<Timeout> {
    let found = TIMED.iter().find(|(of, _)| *of == number);
    match (found, number) {
        (Some((_, timeout)), _) => Some(*timeout),
        (None, libc::SYS_close | libc::SYS_restart_syscall | ..0) => None,
        (None, _) => Some(Timeout::Unchanged),
    }
}

/// Returns where a call has its timeout that the kernel continues by `restart_syscall`. A timeout that is a point in time needs no change.
pub(super) fn kept_timeout_of(number: i64, arguments: &[u64; 6]) -> Option<Timeout> {
    let operation = arguments[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    Some(match number {
        libc::SYS_poll => Timeout::Milliseconds(2),
        libc::SYS_nanosleep => Timeout::Timespec(0),
        libc::SYS_clock_nanosleep if is_rest_known(arguments) => Timeout::Timespec(2),
        libc::SYS_futex if operation == libc::FUTEX_WAIT => Timeout::Timespec(3),
        libc::SYS_clock_nanosleep | libc::SYS_futex => Timeout::Unchanged,
        _ => return None,
    })
}

/// Whether `clock_nanosleep` with these arguments sleeps by a clock that runs as ours does. Clocks of a process or a thread run with its
/// processor time.
fn is_rest_known([clock, flags, ..]: &[u64; 6]) -> bool {
    let clocks = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_REALTIME_ALARM,
        libc::CLOCK_BOOTTIME_ALARM,
        libc::CLOCK_TAI,
    ];
    *flags as i32 & libc::TIMER_ABSTIME == 0 && clocks.contains(&(*clock as i32))
}
