//! The timeouts that sockets have themselves (`SO_RCVTIMEO`, `SO_SNDTIMEO`) across our stops. Used by `interrupted`.
//!
//! Such a timeout is in no argument of the call that waits, so a call that is made again begins it again: under a command that stops the
//! process more often than that (`lancet mem`), it would never end. So it is remembered when a wait was interrupted first, and at the first
//! stop that comes later than that by the timeout, the call gets the result that the kernel gives at a timeout: EAGAIN (socket(7)), of
//! `connect` on a socket of the network EINPROGRESS (connect(2)). It ends later than without us by what it had waited at the first stop and the
//! time between two stops, and never earlier. Where no stop comes then, the kernel ends it by its timeout: `connect`, which it knows as one that
//! was begun before, with EALREADY in the place of EINPROGRESS (`__inet_stream_connect`, net/ipv4/af_inet.c).

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

/// Returns which timeout ends this call: the arguments that may be the socket it waits for, each with the option of setsockopt(2). One of
/// `splice`'s two descriptors is a pipe, and a wait for that does not end with EINTR.
fn options_of(number: i64) -> &'static [(usize, i32)] {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => &[(0, libc::SO_RCVTIMEO)],
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendfile
        | libc::SYS_connect => &[(0, libc::SO_SNDTIMEO)],
        libc::SYS_splice => &[(0, libc::SO_RCVTIMEO), (2, libc::SO_SNDTIMEO)],
        _ => &[],
    }
}

/// Returns what a stopped thread's call, which EINTR would end, gets instead: the result of a timeout that is over, or `again`.
pub(super) fn result(tid: i32, call: &Call, again: i64) -> i64 {
    if options_of(call.0).is_empty() {
        return again;
    }
    let known = with_waits(|waits| waits.remove(&tid));
    let Some(Sched { switches, .. }) = Sched::read(&format!("/proc/{tid}/sched")) else {
        return again;
    };
    let Some(Timeout { whole, over }) = timeout(tid, call) else {
        return again;
    };
    // Since the last stop it went to sleep, and then stood still; one switch more would be another call that looks like it.
    let goes_on = known.filter(|wait| wait.call == *call && switches == wait.switches + 2);
    let began = goes_on.map_or_else(Instant::now, |wait| wait.began);
    if began.elapsed() >= whole {
        return -i64::from(over);
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

/// The timeout of a socket.
struct Timeout {
    whole: Duration,
    /// The error with which a call ends when it is over.
    over: i32,
}

/// Returns the timeout of the socket that a thread waits for in this call; `None` if it has none or that cannot be read.
fn timeout(tid: i32, call: &Call) -> Option<Timeout> {
    // A thread may have descriptors of its own; those of the process are read.
    let pid = StatusFile::of_first_thread(tid).ok()?.number("Tgid")?;
    let of = |(argument, option): &(usize, i32)| {
        let number = call.1[*argument] as i32;
        let link = |of: i32| read_link(proc_file::path(of, &format!("fd/{number}"))).ok();
        (link(tid)? == link(pid)?).then_some(())?;
        let socket = PidFd::of_descriptors(pid).ok()?.duplicate(number).ok()?;
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let time = option_of_socket(&socket, *option, time)?;
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let microseconds = u64::try_from(time.tv_usec).ok()?;
        let whole = Duration::from_secs(seconds) + Duration::from_micros(microseconds);
        let is_local = option_of_socket(&socket, libc::SO_DOMAIN, 0) == Some(libc::AF_UNIX);
        let over = match call.0 == libc::SYS_connect && !is_local {
            true => libc::EINPROGRESS,
            false => libc::EAGAIN,
        };
        (!whole.is_zero()).then_some(Timeout { whole, over })
    };
    options_of(call.0).iter().find_map(of)
}

/// Asks for an option of a socket, whose value has the type of `value` (socket(7)); `None` of what is no socket.
fn option_of_socket<T: Copy>(socket: &impl AsRawFd, option: i32, mut value: T) -> Option<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes no more than `size` bytes to `value`, which lives and whose type, an integer or a
    // struct of integers, has no forbidden bits.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    (got == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::os::unix::net::UnixStream;

    /// What a child ends with if a read of its has ended too early, or without a timeout.
    const EARLY: i32 = 98;
    const OTHER: i32 = 99;

    /// A child that makes a call so many times, which waits for a socket with this timeout, and ends with 0 if each ended by it, with this error.
    fn waiter(call: [usize; 7], times: u32, whole: Duration, over: i32) -> i32 {
        let [number, one, two, three, four, five, six] = call;
        // SAFETY: the child makes system calls only, with what lives in the caller's frame.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    for _ in 0..times {
                        let began = Instant::now();
                        let done = libc::syscall(number as i64, one, two, three, four, five, six);
                        if done != -1 || *libc::__errno_location() != over {
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
        let mut byte = [0u8];
        let number = theirs.as_raw_fd() as usize;
        let read = [
            libc::SYS_read as usize,
            number,
            byte.as_mut_ptr() as usize,
            1,
            0,
            0,
            0,
        ];
        // One read is stopped some twenty times. Of many, each looks like the last one, and has its whole timeout all the same.
        for (reads, milliseconds, stops_in_one) in [(1, 400, 20), (10, 60, 3)] {
            let whole = Duration::from_millis(milliseconds);
            theirs.set_read_timeout(Some(whole)).expect("a timeout");
            let pid = waiter(read, reads, whole, libc::EAGAIN);
            let ended = stopped_until_it_ends(pid, whole / stops_in_one);
            assert_eq!(ended.0, 0, "{reads} reads, {} stops", ended.1);
            assert!(ended.1 > 2, "{reads} reads, {} stops", ended.1);
        }
    }

    #[test]
    fn a_splice_from_a_socket_ends_by_its_timeout() {
        let (_ours, theirs) = UnixStream::pair().expect("a pair");
        let whole = Duration::from_millis(400);
        theirs.set_read_timeout(Some(whole)).expect("a timeout");
        let (_from, into) = std::io::pipe().expect("a pipe");
        let [socket, into] = [theirs.as_raw_fd(), into.as_raw_fd()].map(|one| one as usize);
        let splice = [libc::SYS_splice as usize, socket, 0, into, 0, 1, 0];
        let ended = stopped_until_it_ends(waiter(splice, 1, whole, libc::EAGAIN), whole / 20);
        assert!(ended.0 == 0 && ended.1 > 2, "{ended:?}");
    }

    /// Somebody who listens and accepts nobody: the kernel answers no more than its queue has room for.
    #[test]
    fn a_connect_ends_by_its_timeout() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        // SAFETY: the descriptor is a listening socket, whose queue becomes shorter.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().expect("an address");
        let _full: Vec<_> = (0..3)
            .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50)))
            .collect();
        // SAFETY: the call takes no memory.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        assert!(socket >= 0);
        // SAFETY: the descriptor is ours alone.
        let socket = unsafe { std::net::TcpStream::from_raw_fd(socket) };
        let whole = Duration::from_millis(400);
        socket.set_write_timeout(Some(whole)).expect("a timeout");
        let name = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: address.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
            },
            sin_zero: [0; 8],
        };
        let [number, at] = [socket.as_raw_fd() as usize, (&raw const name) as usize];
        let connect = [
            libc::SYS_connect as usize,
            number,
            at,
            size_of_val(&name),
            0,
            0,
            0,
        ];
        let ended = stopped_until_it_ends(waiter(connect, 1, whole, libc::EINPROGRESS), whole / 20);
        assert!(ended.0 == 0 && ended.1 > 2, "{ended:?}");
    }
}
