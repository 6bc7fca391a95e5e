//! Finds when a system call ends by its timeout, which is an argument, or in memory at the address in an argument. Used
//! by `wait`.
//!
//! A timeout that counts from the beginning of the call is shortened by how long the thread has slept in it; one that is a time of a clock,
//! by the present time of that clock. A socket's own timeout (`SO_RCVTIMEO`) cannot be seen.

use std::time::Duration;

use vm::Memory;

use crate::interrupted::InCall;

/// Where a call has its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Milliseconds as an `int` in this argument; negative = for ever.
    Milliseconds(usize),
    /// A `timespec` at the address in this argument, if that is not null.
    Timespec(usize),
    /// A `timeval` at the address in this argument, if that is not null.
    Timeval(usize),
    /// A `timespec` at the address in this argument that is a time of this clock.
    Clock(usize, i32),
}

/// The operations of `futex` whose timeout counts from the call's beginning; for the others it is a time of a clock (futex(2)).
const FROM_BEGINNING: i32 = libc::FUTEX_WAIT;

fn limit(call: &InCall) -> Option<Limit> {
    Some(match call.number {
        libc::SYS_poll => Limit::Milliseconds(2),
        libc::SYS_ppoll | libc::SYS_rt_sigtimedwait => Limit::Timespec(2),
        libc::SYS_select => Limit::Timeval(4),
        libc::SYS_pselect6 | libc::SYS_io_getevents => Limit::Timespec(4),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Limit::Milliseconds(3),
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => Limit::Timespec(3),
        libc::SYS_nanosleep => Limit::Timespec(0),
        libc::SYS_clock_nanosleep if call.arguments[1] & libc::TIMER_ABSTIME as u64 != 0 => {
            Limit::Clock(2, call.arguments[0] as i32)
        }
        libc::SYS_clock_nanosleep => Limit::Timespec(2),
        libc::SYS_futex => {
            let operation = call.arguments[1] as i32;
            let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
            let by_time_of_day = operation & libc::FUTEX_CLOCK_REALTIME != 0
                || operation & !flags == libc::FUTEX_LOCK_PI;
            match operation & !flags {
                FROM_BEGINNING => Limit::Timespec(3),
                _ if by_time_of_day => Limit::Clock(3, libc::CLOCK_REALTIME),
                _ => Limit::Clock(3, libc::CLOCK_MONOTONIC),
            }
        }
        _ => return None,
    })
}

/// Whether a call ends by its timeout; nothing is read of the memory for it.
pub(super) fn has(call: &InCall) -> bool {
    limit(call).is_some_and(|limit| match limit {
        Limit::Milliseconds(at) => call.arguments[at] as i32 >= 0,
        Limit::Timespec(at) | Limit::Timeval(at) | Limit::Clock(at, _) => call.arguments[at] != 0,
    })
}

/// Returns the time until a call ends by its timeout; the thread has slept in it for `asleep`.
pub(super) fn ends_in(
    call: &InCall,
    memory: &dyn Memory,
    asleep: Option<Duration>,
) -> Option<Duration> {
    let words = |at: usize| {
        let place = call.arguments[at];
        let read = |at: u64| memory.u64(at).ok();
        (place != 0).then_some(())?;
        Some((read(place)?, read(place.checked_add(8)?)?))
    };
    let slept = asleep.unwrap_or_default();
    match limit(call)? {
        Limit::Milliseconds(at) => {
            let whole = u64::try_from(call.arguments[at] as i32).ok()?;
            Some(Duration::from_millis(whole).saturating_sub(slept))
        }
        Limit::Timespec(at) => Some(time(words(at)?, 1)?.saturating_sub(slept)),
        Limit::Timeval(at) => Some(time(words(at)?, 1000)?.saturating_sub(slept)),
        Limit::Clock(at, clock) => Some(time(words(at)?, 1)?.saturating_sub(now(clock)?)),
    }
}

/// Converts seconds, and a rest in units of `each` nanoseconds; `None` for values that the kernel would refuse.
fn time((seconds, rest): (u64, u64), each: u64) -> Option<Duration> {
    let seconds = u64::try_from(seconds as i64).ok()?;
    let nanoseconds = rest.checked_mul(each)?;
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds as u32))
}

fn now(clock: i32) -> Option<Duration> {
    let known = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_TAI,
    ];
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a live value of this frame, to which the call writes; the clock is one of those that exist for every process.
    let done = known.contains(&clock) && unsafe { libc::clock_gettime(clock, &raw mut now) } == 0;
    done.then(|| Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm::Fault;

    /// Memory with these two words at 0x1000.
    struct Two(u64, u64);

    impl Memory for Two {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let word = match at {
                0x1000 => self.0,
                0x1008 => self.1,
                _ => return Err(Fault { at }),
            };
            into.copy_from_slice(&word.to_le_bytes()[..into.len()]);
            Ok(())
        }
    }

    fn left(number: i64, arguments: [u64; 6], (seconds, rest): (u64, u64)) -> Option<Duration> {
        let call = InCall {
            number,
            arguments,
            sp: 0,
            pc: 0,
        };
        let slept = Some(Duration::from_millis(500));
        ends_in(&call, &Two(seconds, rest), slept)
    }

    #[test]
    fn what_is_left_of_a_timeout() {
        let half = Some(Duration::from_millis(1500));
        let at = 0x1000;
        assert_eq!(left(libc::SYS_poll, [0, 0, 2000, 0, 0, 0], (0, 0)), half);
        let ever = u64::from(u32::MAX);
        assert_eq!(left(libc::SYS_poll, [0, 0, ever, 0, 0, 0], (0, 0)), None);
        assert_eq!(left(libc::SYS_ppoll, [0, 0, at, 0, 0, 0], (2, 0)), half);
        assert_eq!(left(libc::SYS_ppoll, [0, 0, 0, 0, 0, 0], (2, 0)), None);
        let select = libc::SYS_select;
        assert_eq!(left(select, [0, 0, 0, 0, at, 0], (1, 1_000_000)), None);
        let seen = left(select, [0, 0, 0, 0, at, 0], (1, 999_999));
        assert_eq!(seen, Some(Duration::from_micros(1_499_999)));
        let wait = libc::FUTEX_WAIT as u64;
        assert_eq!(left(libc::SYS_futex, [0, wait, 0, at, 0, 0], (2, 0)), half);
        // What ended before now has nothing left; what the kernel refuses, what is not mapped and what wraps have no end.
        let bits = libc::FUTEX_WAIT_BITSET as u64;
        let futex = libc::SYS_futex;
        let over = Some(Duration::ZERO);
        assert_eq!(left(futex, [0, bits, 0, at, 0, 0], (1, 0)), over);
        let far = now(libc::CLOCK_MONOTONIC).expect("a clock").as_secs() + 3600;
        let rest = left(futex, [0, bits, 0, at, 0, 0], (far, 0)).expect("an end");
        assert!(rest > Duration::from_secs(3590) && rest <= Duration::from_secs(3600));
        assert_eq!(left(futex, [0, bits, 0, at, 0, 0], (u64::MAX, 0)), None);
        assert_eq!(left(futex, [0, bits, 0, u64::MAX - 3, 0, 0], (1, 0)), None);
        assert_eq!(left(libc::SYS_read, [0, at, 0, 0, 0, 0], (2, 0)), None);
    }
}
