//! Finds what a thread that sleeps in the kernel waits for, and since when: which system call, on which descriptors, whose peer, for how
//! long. Used by `in_turn` and `standstill`, and by the crates `frames`, `report` and `calls`.
//!
//! All of it comes from files of the kernel and is read without stopping anything: the call and its arguments
//! (`/proc/PID/task/TID/syscall`), when the thread last ran (`sched`), what its descriptors are (`fd`), and the peers of sockets
//! (`net/tcp` and its kin, of the network namespace of the process). A wait that began before lancet came is described like one that
//! begins now.
//!
//! Which other processes are involved (which one has locked the file, which one has the other end of the pipe) is searched for in all
//! processes, which takes time, and so only on request: [`others`].

mod budget;
mod locks;
pub mod others;
pub mod retried;
mod timeout;

use crate::proc_file;
use std::fs;
use std::time::Duration;

use vm::Memory;

use crate::interrupted::{InCall, slept};
use crate::sockets::Sockets;
use crate::stop::thread_state;

use others::Others;

/// Limit of the entries of a list of `poll` that are read; the rest is counted.
const MOST_POLLED: u64 = 4096;
/// Limit of the descriptors of one wait that are described; further ones are counted.
const TOLD: usize = 3;
/// `sizeof(struct pollfd)` (poll.h), which begins with the descriptor.
const POLLFD: u64 = 8;
/// Limit of the bytes of a `fdinfo` file that are read: the epoll of a server can have tens of thousands of lines.
const MOST_OF_FDINFO: u64 = 1 << 20;

/// Where a system call has the descriptors that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// It waits for no descriptor.
    Nothing,
    /// It waits for the file whose path is at the address in this argument.
    Path(usize),
    /// Its first argument is the descriptor.
    First,
    /// The first argument is the address of an array of `struct pollfd`, the second their number.
    Poll,
    /// The first argument is one more than the highest descriptor; the second and third are addresses of sets of bits.
    Select,
    /// The first argument is an epoll descriptor.
    Epoll,
}

/// The system calls that a thread may sleep in for long (arch/x86/entry/syscalls/syscall_64.tbl).
const CALLS: &[(i64, &str, On)] = &[
    (libc::SYS_read, "read", On::First),
    (libc::SYS_readv, "readv", On::First),
    (libc::SYS_pread64, "pread64", On::First),
    (libc::SYS_preadv, "preadv", On::First),
    (libc::SYS_preadv2, "preadv2", On::First),
    (libc::SYS_write, "write", On::First),
    (libc::SYS_writev, "writev", On::First),
    (libc::SYS_pwrite64, "pwrite64", On::First),
    (libc::SYS_pwritev, "pwritev", On::First),
    (libc::SYS_recvfrom, "recvfrom", On::First),
    (libc::SYS_recvmsg, "recvmsg", On::First),
    (libc::SYS_recvmmsg, "recvmmsg", On::First),
    (libc::SYS_sendto, "sendto", On::First),
    (libc::SYS_sendmsg, "sendmsg", On::First),
    (libc::SYS_sendmmsg, "sendmmsg", On::First),
    (libc::SYS_accept, "accept", On::First),
    (libc::SYS_accept4, "accept4", On::First),
    (libc::SYS_connect, "connect", On::First),
    (libc::SYS_sendfile, "sendfile", On::First),
    (libc::SYS_splice, "splice", On::First),
    (libc::SYS_flock, "flock", On::First),
    (libc::SYS_fcntl, "fcntl", On::First),
    (libc::SYS_ioctl, "ioctl", On::First),
    (libc::SYS_fsync, "fsync", On::First),
    (libc::SYS_fdatasync, "fdatasync", On::First),
    (libc::SYS_ftruncate, "ftruncate", On::First),
    (libc::SYS_fallocate, "fallocate", On::First),
    (libc::SYS_getdents64, "getdents64", On::First),
    (libc::SYS_close, "close", On::First),
    (libc::SYS_openat, "openat", On::Path(1)),
    (libc::SYS_open, "open", On::Path(0)),
    (libc::SYS_poll, "poll", On::Poll),
    (libc::SYS_ppoll, "ppoll", On::Poll),
    (libc::SYS_select, "select", On::Select),
    (libc::SYS_pselect6, "pselect6", On::Select),
    (libc::SYS_epoll_wait, "epoll_wait", On::Epoll),
    (libc::SYS_epoll_pwait, "epoll_pwait", On::Epoll),
    (libc::SYS_epoll_pwait2, "epoll_pwait2", On::Epoll),
    (libc::SYS_io_uring_enter, "io_uring_enter", On::Nothing),
    (libc::SYS_io_getevents, "io_getevents", On::Nothing),
    (libc::SYS_futex, "futex", On::Nothing),
    (libc::SYS_nanosleep, "nanosleep", On::Nothing),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", On::Nothing),
    (libc::SYS_pause, "pause", On::Nothing),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", On::Nothing),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend", On::Nothing),
    (libc::SYS_wait4, "wait4", On::Nothing),
    (libc::SYS_waitid, "waitid", On::Nothing),
    (libc::SYS_vfork, "vfork", On::Nothing),
    (libc::SYS_clone, "clone", On::Nothing),
    (libc::SYS_clone3, "clone3", On::Nothing),
    (libc::SYS_semop, "semop", On::Nothing),
    (libc::SYS_semtimedop, "semtimedop", On::Nothing),
    (libc::SYS_msgrcv, "msgrcv", On::Nothing),
    (libc::SYS_msgsnd, "msgsnd", On::Nothing),
    (libc::SYS_mq_timedreceive, "mq_timedreceive", On::First),
    (libc::SYS_mq_timedsend, "mq_timedsend", On::First),
    (libc::SYS_getrandom, "getrandom", On::Nothing),
];

/// What a sleeping thread waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The system call; `None` for one that seldom waits, and for a page fault.
    pub call: Option<&'static str>,
    /// Its number; negative for a page fault.
    pub number: i64,
    /// Descriptions of the descriptors that it waits for, up to a limit: `tcp to 10.0.0.7:3306`, `pipe`, a path.
    pub on: Vec<String>,
    /// How many descriptors it waits for besides those in `on`.
    pub more: usize,
    /// The other processes involved: for each entry of `on`, or for the call; empty unless requested ([`others`]).
    pub others: Vec<Others>,
    /// Whether the call ends by itself after a time, by its arguments; a socket's own timeout (`SO_RCVTIMEO`) is not seen.
    pub timed: bool,
    /// The time from now until the call ends by its timeout; `None` if it has none, or if that is not known.
    pub ends_in: Option<Duration>,
    /// How long it has slept; `None` if the kernel does not say.
    pub asleep: Option<Duration>,
    /// Whether no signal can end the wait (state D): it waits for a disk, a file server, or a child of `vfork`.
    pub uninterruptible: bool,
    /// The word that a `futex` call sleeps on.
    pub futex: Option<Futex>,
    /// The descriptors described in `on`, in the same order; none if `on` is a path.
    pub told: Vec<u64>,
    /// The call's arguments, in the kernel's order.
    pub arguments: [u64; 6],
}

/// The word that a thread sleeps on (futex(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Futex {
    /// Its address.
    pub word: u64,
    /// The value that it had, when the call began, as the condition for sleeping.
    pub value: u32,
    /// Whether threads of other processes may use the same word (no `FUTEX_PRIVATE_FLAG`).
    pub shared: bool,
    /// Whether the kernel passes on the sleeper's priority, and the word itself is the owner's id (`FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`).
    pub inherits: bool,
}

impl Futex {
    fn of(call: &InCall) -> Option<Futex> {
        let [word, operation, value, ..] = call.arguments;
        let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
        let plain = operation as i32 & !flags;
        (call.number == libc::SYS_futex).then_some(Futex {
            word,
            value: value as u32,
            shared: operation as i32 & libc::FUTEX_PRIVATE_FLAG == 0,
            inherits: [libc::FUTEX_LOCK_PI, libc::FUTEX_LOCK_PI2].contains(&plain),
        })
    }
}

/// Finds what threads of one process wait for.
pub struct Waits<'a> {
    pid: i32,
    memory: &'a dyn Memory,
    sockets: Sockets,
}

/// Returns how long a thread has slept; `None` if the kernel does not say.
pub fn slept_for(pid: i32, tid: i32) -> Option<Duration> {
    slept(pid, tid).map(|(time, _)| time)
}

/// Describes a descriptor of a process: the peer of a socket, which is one of `sockets`, or the target of its link in `/proc/PID/fd`.
pub fn descriptor(pid: i32, fd: u64, sockets: &mut Sockets) -> String {
    let fd = fd as u32;
    let link = proc_file::path(pid, &format!("fd/{fd}"));
    let Ok(target) = fs::read_link(link) else {
        return format!("descriptor {fd}");
    };
    let target = target.to_string_lossy();
    if let Some(inode) = proc_file::inode_of_link(&target, "socket") {
        let known = sockets.describe(inode);
        return known.unwrap_or_else(|| format!("socket, descriptor {fd}"));
    }
    if proc_file::inode_of_link(&target, "pipe").is_some() {
        return format!("pipe, descriptor {fd}");
    }
    match target.strip_prefix("anon_inode:") {
        Some(kind) => format!("{}, descriptor {fd}", kind.trim_matches(['[', ']'])),
        None => target.into_owned(),
    }
}

impl<'a> Waits<'a> {
    /// For process `pid`; `memory` is read for the lists that are arguments of calls.
    pub fn of(pid: i32, memory: &'a dyn Memory) -> Waits<'a> {
        Waits {
            pid,
            memory,
            sockets: Sockets::of(pid),
        }
    }

    /// Returns what a thread waits for that sleeps in a system call, and has [slept for so long](slept_for).
    pub fn wait(&mut self, tid: i32, call: &InCall, asleep: Option<Duration>) -> Wait {
        let call = call.made(self.memory);
        let known = CALLS.iter().find(|(number, ..)| *number == call.number);
        let on = known.map_or(On::Nothing, |known| known.2);
        let (descriptors, unread) = self.descriptors(on, &call);
        let told: Vec<u64> = descriptors.iter().take(TOLD).copied().collect();
        Wait {
            call: known.map(|known| known.1),
            number: call.number,
            on: match on {
                On::Path(at) => self.path(call.arguments[at]).into_iter().collect(),
                _ => told.iter().map(|&fd| self.descriptor(fd)).collect(),
            },
            more: descriptors.len() - told.len() + unread,
            others: Vec::new(),
            timed: timeout::has(&call),
            ends_in: timeout::ends_in(&call, self.memory, asleep),
            asleep,
            uninterruptible: thread_state(self.pid, tid) == Some('D'),
            futex: Futex::of(&call),
            told,
            arguments: call.arguments,
        }
    }

    /// Returns the descriptors that a call waits for, and how many more are in a list that was not read to its end.
    fn descriptors(&self, on: On, call: &InCall) -> (Vec<u64>, usize) {
        let [first, second, third, ..] = call.arguments;
        // The kernel takes numbers of descriptors as `unsigned int` (poll) and `int` (select), whatever is in the register's upper half.
        let polled = u64::from(second as u32);
        let unread = match on {
            On::Poll => polled.saturating_sub(MOST_POLLED),
            _ => 0,
        };
        let descriptors = match on {
            On::Nothing | On::Path(_) => Vec::new(),
            On::First => vec![first],
            On::Poll => self.polled(first, polled),
            On::Select => self.selected((first as i32).max(0) as u64, [second, third]),
            On::Epoll => self.watched(first),
        };
        (descriptors, usize::try_from(unread).unwrap_or(usize::MAX))
    }

    /// Returns the text of a path; `None` if it cannot be read, or has no end.
    fn path(&self, at: u64) -> Option<String> {
        let mut path = Vec::new();
        while path.len() < libc::PATH_MAX as usize {
            let mut bytes = [0; 64];
            let from = at.checked_add(path.len() as u64)?;
            // Reading stops at the end of the page, because nothing may be mapped behind it.
            let rest = (4096 - (from % 4096) as usize).min(bytes.len());
            self.memory.read(from, &mut bytes[..rest]).ok()?;
            match bytes[..rest].iter().position(|byte| *byte == 0) {
                Some(end) => {
                    path.extend_from_slice(&bytes[..end]);
                    return (!path.is_empty()).then(|| String::from_utf8_lossy(&path).into_owned());
                }
                None => path.extend_from_slice(&bytes[..rest]),
            }
        }
        None
    }

    /// Describes a descriptor: the peer of a socket, or the target of its link in `/proc/PID/fd`.
    pub fn descriptor(&mut self, fd: u64) -> String {
        descriptor(self.pid, fd, &mut self.sockets)
    }

    fn polled(&self, list: u64, count: u64) -> Vec<u64> {
        let count = count.min(MOST_POLLED);
        let fds = (0..count).map_while(|at| {
            let place = list.wrapping_add(at * POLLFD);
            self.memory.u32(place).ok()
        });
        // poll skips negative ones.
        fds.filter(|fd| (*fd as i32) >= 0).map(u64::from).collect()
    }

    fn selected(&self, count: u64, sets: [u64; 2]) -> Vec<u64> {
        let words = (count.min(1024)).div_ceil(64);
        let mut found = Vec::new();
        for set in sets.into_iter().filter(|set| *set != 0) {
            for at in 0..words {
                let Ok(word) = self.memory.u64(set.wrapping_add(at * 8)) else {
                    break;
                };
                let bits = (0..64).filter(|bit| word >> bit & 1 != 0);
                found.extend(bits.map(|bit| at * 64 + bit));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the descriptors that an epoll watches (`tfd:` in its `fdinfo`, Documentation/filesystems/proc.rst).
    fn watched(&self, epoll: u64) -> Vec<u64> {
        let path = proc_file::path(self.pid, &format!("fdinfo/{}", epoll as u32));
        let text = proc_file::text_up_to(path, MOST_OF_FDINFO).unwrap_or_default();
        let fds = text.lines().filter_map(|line| {
            let fd = line.strip_prefix("tfd:")?.split_whitespace().next()?;
            fd.parse().ok()
        });
        fds.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asleep::Asleep;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;
    use std::time::Instant;

    /// The memory of the test's own process.
    struct Own;

    impl Memory for Own {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
            use std::os::unix::fs::FileExt;
            let memory =
                crate::descriptors::open_briefly("/proc/self/mem").map_err(|_| vm::Fault { at })?;
            memory.read_exact_at(into, at).map_err(|_| vm::Fault { at })
        }
    }

    /// Runs `sleep` in a thread, and returns what it waits for once it waits in `call`.
    fn waits_in(call: &str, sleep: impl FnOnce() + Send + 'static) -> Wait {
        let pid = std::process::id() as i32;
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: it takes nothing and returns a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            sleep();
        });
        let tid = told.recv().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(asleep) = Asleep::of(pid, tid) {
                let wait = Waits::of(pid, &Own).wait(tid, asleep.call(), slept_for(pid, tid));
                if wait.call == Some(call) && wait.asleep >= Some(Duration::from_millis(20)) {
                    return wait;
                }
            }
            assert!(Instant::now() < deadline, "it never slept in {call}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_peer_of_a_socket_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let mut stream = TcpStream::connect(to).unwrap();
        let fd = stream.as_raw_fd();
        let wait = waits_in("recvfrom", move || {
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(wait.on, [format!("tcp to {to}")]);
        assert!(wait.asleep.unwrap() < Duration::from_secs(20));
        let wait = waits_in("poll", move || {
            let mut polled = [fd, -1].map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two live entries.
            unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        });
        assert_eq!((wait.on, wait.more), (vec![format!("tcp to {to}")], 0));
    }

    #[test]
    fn who_waits_for_nobody_in_particular() {
        let wait = waits_in("clock_nanosleep", || {
            std::thread::sleep(Duration::from_secs(60));
        });
        assert_eq!((wait.on, wait.more), (Vec::new(), 0));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let wait = waits_in("accept4", move || {
            let _ = listener.accept();
        });
        assert_eq!(wait.on, [format!("tcp listening on {at}")]);
    }
}
