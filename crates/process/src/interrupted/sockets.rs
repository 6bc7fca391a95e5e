//! The timeouts that sockets have themselves (`SO_RCVTIMEO`, `SO_SNDTIMEO`) across our stops.
//!
//! Such a timeout is in no argument of the call that waits, so a call that is made again begins it again: under a command that stops the
//! process more often than that (`lancet mem`), it would never end. So it is remembered when a wait was interrupted first, and at the first
//! stop that comes later than that by the timeout, the call gets the result that the kernel gives at a timeout, EAGAIN (socket(7)). It ends
//! later than without us by what it had waited at the first stop and the time between two stops, and never earlier.

use super::slept::Sched;
use crate::pidfd::PidFd;
use crate::proc_file;
use crate::status_file::StatusFile;
use std::collections::HashMap;
use std::fs::read_link;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A system call that a thread waits in: its number, its arguments, and the thread's stack pointer and program counter.
pub(super) type Call = (i64, [u64; 6], [u64; 2]);

/// A thread's wait that a stop of ours has interrupted.
#[derive(Clone, Copy, Debug)]
struct Wait {
    call: Call,
    /// When it was interrupted first, since the program has made the call.
    began: Instant,
    /// Number of voluntary context switches that the thread had made at the stop.
    switches: u64,
}

/// The waits that were interrupted and begun again, by thread.
static WAITS: Mutex<Option<HashMap<i32, Wait>>> = Mutex::new(None);

/// Limit of the threads that are remembered; those that have ended are not told from others.
const MOST: usize = 16384;

fn with_waits<T>(work: impl FnOnce(&mut HashMap<i32, Wait>) -> T) -> T {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    work(waits.get_or_insert_default())
}

/// Returns which timeout of its first argument, a socket, ends this call: an option of setsockopt(2). `connect`, which answers something
/// else then, and `splice`, which has two descriptors, wait for their whole timeout again.
fn option_of(number: i64) -> Option<i32> {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => Some(libc::SO_RCVTIMEO),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendfile => Some(libc::SO_SNDTIMEO),
        _ => None,
    }
}

/// Returns what a stopped thread's call, which EINTR would end, gets instead: the result of a timeout that is over, or `again`.
pub(super) fn result(tid: i32, call: &Call, again: i64) -> i64 {
    if option_of(call.0).is_none() {
        return again;
    }
    let known = with_waits(|waits| waits.remove(&tid));
    let Some(Sched { switches, .. }) = Sched::read(&format!("/proc/{tid}/sched")) else {
        return again;
    };
    let Some(whole) = timeout(tid, call) else {
        return again;
    };
    // Since the last stop it went to sleep, and then stood still; one switch more would be another call that looks like it.
    let goes_on = known.filter(|wait| wait.call == *call && switches == wait.switches + 2);
    let began = goes_on.map_or_else(Instant::now, |wait| wait.began);
    if began.elapsed() >= whole {
        return -i64::from(libc::EAGAIN);
    }
    let wait = Wait {
        call: *call,
        began,
        switches,
    };
    with_waits(|waits| {
        if waits.len() >= MOST {
            waits.clear();
        }
        waits.insert(tid, wait);
    });
    again
}

/// Returns the timeout of the socket that a thread waits for in this call; `None` if it has none or that cannot be read.
fn timeout(tid: i32, call: &Call) -> Option<Duration> {
    let option = option_of(call.0)?;
    let number = call.1[0] as i32;
    // A thread may have descriptors of its own; those of the process are read.
    let pid = StatusFile::of_first_thread(tid).ok()?.number("Tgid")?;
    let link = |of: i32| read_link(proc_file::path(of, &format!("fd/{number}"))).ok();
    (link(tid)? == link(pid)?).then_some(())?;
    let socket = PidFd::of_descriptors(pid).ok()?.duplicate(number).ok()?;
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes no more than `size` bytes to `time`, which lives.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut time).cast(),
            &raw mut size,
        )
    };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let microseconds = u64::try_from(time.tv_usec).ok()?;
    let whole = Duration::from_secs(seconds) + Duration::from_micros(microseconds);
    (got == 0 && !whole.is_zero()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// What a child ends with if a read of its has ended too early, or without a timeout.
    const EARLY: i32 = 98;
    const OTHER: i32 = 99;

    /// A child that reads from a socket so many times, with nothing to read and this timeout, and ends with 0 if each read ended by it.
    fn reader(socket: &UnixStream, reads: u32, whole: Duration) -> i32 {
        let mut byte = [0];
        let [number, into] = [socket.as_raw_fd() as usize, byte.as_mut_ptr() as usize];
        // SAFETY: the child makes system calls only, with what lives in this frame.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    for _ in 0..reads {
                        let began = Instant::now();
                        let read = libc::syscall(libc::SYS_read, number, into, 1);
                        if read != -1 || *libc::__errno_location() != libc::EAGAIN {
                            libc::_exit(OTHER);
                        }
                        if began.elapsed() < whole {
                            libc::_exit(EARLY);
                        }
                    }
                    libc::_exit(0)
                }
                pid => pid,
            }
        }
    }

    /// Stops a child again and again, each time `between` after the last, until it ends; returns its exit code and the number of stops.
    fn stopped_until_it_ends(pid: i32, between: Duration) -> (i32, u32) {
        let (began, mut stops, mut status) = (Instant::now(), 0, 0);
        // SAFETY: our own child, which is waited for.
        while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "{stops} stops");
            stops += u32::from(crate::stop::Stop::one(pid, pid, false).is_ok());
            let next = Instant::now() + between;
            while Instant::now() < next {
                std::thread::yield_now();
            }
        }
        assert!(libc::WIFEXITED(status), "{status:#x} after {stops} stops");
        (libc::WEXITSTATUS(status), stops)
    }

    #[test]
    fn the_timeout_of_a_socket_ends_however_often_its_reader_is_stopped_and_never_early() {
        let (_ours, theirs) = UnixStream::pair().expect("a pair");
        // One read is stopped some twenty times. Of many, each looks like the last one, and has its whole timeout all the same.
        for (reads, milliseconds, stops_in_one) in [(1, 400, 20), (10, 60, 3)] {
            let whole = Duration::from_millis(milliseconds);
            theirs.set_read_timeout(Some(whole)).expect("a timeout");
            let pid = reader(&theirs, reads, whole);
            let ended = stopped_until_it_ends(pid, whole / stops_in_one);
            assert_eq!(ended.0, 0, "{reads} reads, {} stops", ended.1);
            assert!(ended.1 > 2, "{reads} reads, {} stops", ended.1);
        }
    }
}
