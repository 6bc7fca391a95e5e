//! What a thread that sleeps in the kernel waits for, and since when: which system call, on which descriptors, whose
//! peer, for how long.
//!
//! All of it is the kernel's own account, read without stopping anything: the call and its arguments
//! (`/proc/PID/task/TID/syscall`), when the thread last ran (`sched`), what its descriptors are (`fd`), and the
//! peers of sockets (`net/tcp` and its kin, of the network namespace of the process). A thread that waited before
//! lancet came is told like one that begins to wait now.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use vm::Memory;

use crate::interrupted::{InCall, slept};
use crate::sockets::Sockets;

/// Descriptors of one wait that are looked up, at most.
const MOST_DESCRIPTORS: usize = 64;
/// Descriptors of one wait that are told, at most; of more the number is told.
const TOLD: usize = 3;
/// `sizeof(struct pollfd)` (poll.h), which begins with the descriptor.
const POLLFD: u64 = 8;
/// Bytes of a `fdinfo` file that are read: an epoll of a server can have tens of thousands of lines.
const MOST_OF_FDINFO: u64 = 1 << 20;

/// Where a system call has the descriptors that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// It waits for no descriptor.
    Nothing,
    /// In its first argument.
    First,
    /// The first argument leads to so many `struct pollfd` as the second says.
    Poll,
    /// The first argument is one more than the highest; the second and third lead to sets of bits.
    Select,
    /// The first argument is an epoll.
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
    (libc::SYS_openat, "openat", On::Nothing),
    (libc::SYS_open, "open", On::Nothing),
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
    (libc::SYS_semop, "semop", On::Nothing),
    (libc::SYS_semtimedop, "semtimedop", On::Nothing),
    (libc::SYS_msgrcv, "msgrcv", On::Nothing),
    (libc::SYS_msgsnd, "msgsnd", On::Nothing),
    (libc::SYS_mq_timedreceive, "mq_timedreceive", On::First),
    (libc::SYS_mq_timedsend, "mq_timedsend", On::First),
    (libc::SYS_getrandom, "getrandom", On::Nothing),
];

/// What a thread that sleeps waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The system call; `None` for one that seldom waits, and for a page fault.
    pub call: Option<&'static str>,
    /// Its number; negative for a page fault.
    pub number: i64,
    /// What the descriptors are that it waits for, as far as they are told: `tcp to 10.0.0.7:3306`, `pipe`, a path.
    pub on: Vec<String>,
    /// How many descriptors it waits for beside those in `on`.
    pub more: usize,
    /// Whether the call ends by itself after a time; known of `futex` and `ppoll`, by which locks wait.
    pub timed: bool,
    /// How long it has slept; `None` if the kernel does not say.
    pub asleep: Option<Duration>,
}

/// Says what threads of one process wait for.
pub struct Waits<'a> {
    pid: i32,
    memory: &'a dyn Memory,
    sockets: Sockets,
}

impl<'a> Waits<'a> {
    /// Begins to ask about process `pid`, whose memory is read for the lists that calls were given.
    pub fn of(pid: i32, memory: &'a dyn Memory) -> Waits<'a> {
        Waits {
            pid,
            memory,
            sockets: Sockets::of(pid),
        }
    }

    /// Returns what a thread that sleeps in a system call waits for.
    pub fn wait(&mut self, tid: i32, call: &InCall) -> Wait {
        let call = call.made(self.memory);
        let known = CALLS.iter().find(|(number, ..)| *number == call.number);
        let [first, second, third, ..] = call.arguments;
        let descriptors = match known.map_or(On::Nothing, |known| known.2) {
            On::Nothing => Vec::new(),
            On::First => vec![first],
            On::Poll => self.polled(first, second),
            On::Select => self.selected(first, [second, third]),
            On::Epoll => self.watched(first),
        };
        let told = descriptors.iter().take(TOLD);
        Wait {
            call: known.map(|known| known.1),
            number: call.number,
            on: told.map(|&fd| self.descriptor(fd)).collect(),
            more: descriptors.len().saturating_sub(TOLD),
            timed: match call.number {
                libc::SYS_futex => call.arguments[3] != 0,
                libc::SYS_ppoll => call.arguments[2] != 0,
                _ => false,
            },
            asleep: slept(self.pid, tid).map(|(time, _)| time),
        }
    }

    /// Returns what a descriptor is: the peer of a socket, or where its link in `/proc/PID/fd` leads.
    pub fn descriptor(&mut self, fd: u64) -> String {
        let fd = fd as u32;
        let link = PathBuf::from(format!("/proc/{}/fd/{fd}", self.pid));
        let Ok(target) = fs::read_link(link) else {
            return format!("descriptor {fd}");
        };
        let target = target.to_string_lossy();
        let of = |kind: &str| target.strip_prefix(kind)?.strip_suffix(']');
        if let Some(inode) = of("socket:[") {
            return inode
                .parse()
                .ok()
                .and_then(|inode| self.sockets.describe(inode))
                .unwrap_or_else(|| format!("socket, descriptor {fd}"));
        }
        if of("pipe:[").is_some() {
            return format!("pipe, descriptor {fd}");
        }
        match target.strip_prefix("anon_inode:") {
            Some(kind) => format!("{}, descriptor {fd}", kind.trim_matches(['[', ']'])),
            None => target.into_owned(),
        }
    }

    fn polled(&self, list: u64, count: u64) -> Vec<u64> {
        let count = count.min(MOST_DESCRIPTORS as u64);
        let fds = (0..count).map_while(|at| {
            let place = list.wrapping_add(at * POLLFD);
            self.memory.u32(place).ok()
        });
        // A negative one is passed over by poll.
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
        use std::io::Read;
        let path = format!("/proc/{}/fdinfo/{}", self.pid, epoll as u32);
        let mut text = String::new();
        let read = fs::File::open(path)
            .and_then(|file| file.take(MOST_OF_FDINFO).read_to_string(&mut text));
        if read.is_err() {
            return Vec::new();
        }
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
            let memory = fs::File::open("/proc/self/mem").map_err(|_| vm::Fault { at })?;
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
                let wait = Waits::of(pid, &Own).wait(tid, asleep.call());
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
