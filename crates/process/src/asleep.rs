//! Looks at threads that sleep in the kernel, without stopping them. Used by `snapshot`, `stop::before` and others
//! here, and by the crates `frames`, `enter`, `hooks` and `lancet`.
//!
//! A stop takes a sleeping thread out of its system call; [`crate::interrupted`] says what that can do to the call. Looking at it needs no
//! stop: while it sleeps, its registers and its stack do not change. The kernel shows the number of the call, its arguments, stack pointer
//! and program counter (`/proc/PID/task/TID/syscall`), and how long and how often the thread has run in all (`schedstat`). It shows the former
//! only of a thread that has left its processor (`task_current_syscall`, lib/syscall.c), and counts each time that a thread gets one
//! (`sched_info_arrive`, kernel/sched/stats.h). So if `schedstat` is the same before both and after its stack was copied, it slept throughout.
//!
//! Other registers are not shown, rbp among them. If an unwinder needs rbp, the thread is stopped.

use crate::descriptors::leaves_half;
use crate::interrupted::InCall;
use crate::proc_file;
use crate::stop::thread_state;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// The value of rbp for a thread that was not stopped, and of an fs base that was not found.
pub const UNKNOWN: u64 = 0;

/// How many bytes before the list of robust mutexes are searched: `struct pthread` of glibc is smaller, and begins with the thread's
/// control block.
const LARGEST_DESCRIPTOR: usize = 4096;

/// A thread that sleeps in the kernel.
#[derive(Clone, Debug)]
pub struct Asleep {
    tid: i32,
    call: InCall,
    schedstat: Schedstat,
    /// Its line when the thread was looked at.
    ran: String,
    thread_area: u64,
}

impl Asleep {
    /// Looks at a thread. `None` if it runs, or if not enough can be found out about it.
    pub fn of(pid: i32, tid: i32) -> Option<Self> {
        let asleep = Self::in_kernel(pid, tid)?;
        (asleep.thread_area != UNKNOWN).then_some(asleep)
    }

    /// The same without the fs base, which is [`UNKNOWN`] then: for a thread that cannot be stopped.
    pub fn in_kernel(pid: i32, tid: i32) -> Option<Self> {
        let schedstat = Schedstat::open(pid, tid);
        let ran = schedstat.line()?;
        // A thread in a ptrace or group stop does not count: it may go on at any time, and its tracer needs it.
        if !matches!(thread_state(pid, tid), Some('S' | 'D')) {
            return None;
        }
        let asleep = Asleep {
            tid,
            call: InCall::of(pid, tid)?,
            schedstat,
            ran,
            thread_area: thread_area(tid).unwrap_or(UNKNOWN),
        };
        let in_call = InCall::of(pid, tid).as_ref() == Some(asleep.call());
        (in_call && asleep.sleeps_on()).then_some(asleep)
    }

    /// Id of the thread in the PID namespace of lancet.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Returns its system call, with its stack pointer and the address at which it goes on.
    pub fn call(&self) -> &InCall {
        &self.call
    }

    /// Returns the fs base, which is what `pthread_self` returns in the thread.
    pub fn thread_area(&self) -> u64 {
        self.thread_area
    }

    /// Returns whether it has slept since [`Asleep::of`].
    pub fn sleeps_on(&self) -> bool {
        self.schedstat.line().as_ref() == Some(&self.ran)
    }
}

/// The file `schedstat` of a thread (Documentation/scheduler/sched-stats.rst): time on a processor, time of waiting for one, number of time
/// slices. It stays open as long as half of the descriptors are free: reading it again takes a third of the time of opening it again.
#[derive(Clone, Debug)]
struct Schedstat {
    pid: i32,
    tid: i32,
    file: Option<Arc<File>>,
}

impl Schedstat {
    fn open(pid: i32, tid: i32) -> Self {
        let file = File::open(format!("/proc/{pid}/task/{tid}/schedstat"));
        let file = file.ok().filter(leaves_half).map(Arc::new);
        Schedstat { pid, tid, file }
    }

    /// Its line; `None` if the thread is gone, has never run, or where the kernel was built without it.
    fn line(&self) -> Option<String> {
        let Some(file) = &self.file else {
            return ran(self.pid, self.tid);
        };
        let mut bytes = [0; 128];
        let length = file.read_at(&mut bytes, 0).ok()?;
        has_run(std::str::from_utf8(&bytes[..length]).ok()?.to_owned())
    }
}

/// What a thread has done since it was made, as far as its scheduler knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// How long it has run.
    pub ran: Duration,
    /// How long it has waited for a processor; the wait in which it is now is added when it ends.
    pub waited: Duration,
    /// How often it was given a processor.
    pub turns: u64,
}

/// What a thread did when it was about to be copied, as its scheduler says (`schedstat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activity {
    /// It slept, and was not stopped.
    Slept,
    /// It was on a processor.
    Ran,
    /// It had to be given a processor to stop: it waited for one, or slept and was stopped.
    Queued,
    /// That was not asked.
    #[default]
    Unknown,
}

/// Returns how long a thread has run, and has waited for a processor; `None` if it is gone, or where the kernel was built without that.
pub fn run_time(pid: i32, tid: i32) -> Option<Ran> {
    let line = ran(pid, tid)?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse);
    let mut number = || numbers.next()?.ok();
    Some(Ran {
        ran: Duration::from_nanos(number()?),
        waited: Duration::from_nanos(number()?),
        turns: number()?,
    })
}

/// Reads `schedstat` of a thread (Documentation/scheduler/sched-stats.rst); `None` where the kernel was built without
/// it.
fn ran(pid: i32, tid: i32) -> Option<String> {
    has_run(proc_file::of_thread(pid, tid, "schedstat").ok()?)
}

/// The line, if it is of a thread that has run: otherwise the kernel does not count that.
fn has_run(line: String) -> Option<String> {
    let time: u64 = line.split(' ').next()?.parse().ok()?;
    (time != 0).then_some(line)
}

/// Returns the address of the head of a thread's list of robust mutexes, as the kernel knows it (get_robust_list(2)); `None` = it has none, or lancet may
/// not ask. glibc's lies in the thread's own `struct pthread` (nptl/descr.h, `robust_head`).
pub fn robust_list(tid: i32) -> Option<u64> {
    let (mut head, mut length) = (0u64, 0usize);
    // SAFETY: the call writes to the two live words of this frame only.
    let done = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            tid,
            &raw mut head,
            &raw mut length,
        )
    };
    (done == 0 && head != 0 && head % 8 == 0).then_some(head)
}

/// Finds the fs base of a thread of glibc. Its [list of robust mutexes](robust_list)
/// begins in the same `struct pthread`; that begins with `tcbhead_t`, whose first and third word are its own address
/// (sysdeps/x86_64/nptl/tls.h).
pub fn thread_area(tid: i32) -> Option<u64> {
    let head = robust_list(tid)?;
    let mut bytes = [0; LARGEST_DESCRIPTOR];
    // The page before may not be mapped; then only the part in this page is read.
    let in_page = (head % 4096) as usize + 8;
    [LARGEST_DESCRIPTOR, in_page].into_iter().find_map(|size| {
        let from = (head + 8).checked_sub(size as u64)?;
        let bytes = &mut bytes[..size];
        let remote = [RemoteIoVec {
            base: from as usize,
            len: size,
        }];
        let read = process_vm_readv(Pid::from_raw(tid), &mut [IoSliceMut::new(bytes)], &remote);
        (read == Ok(size)).then_some(())?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        (0..size).step_by(8).rev().find_map(|at| {
            let address = from + at as u64;
            (word(at)? == address && word(at + 16)? == address).then_some(address)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn a_sleeping_thread_is_known_and_one_that_woke_too() {
        let pid = std::process::id() as i32;
        let (tell, told) = mpsc::channel();
        let (wake, woken) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: they take nothing and return numbers.
            let (tid, own) = unsafe { (libc::gettid(), libc::pthread_self()) };
            tell.send((tid, own)).unwrap();
            woken.recv().unwrap();
            tell.send((0, 0)).unwrap();
            woken.recv()
        });
        let (tid, own) = told.recv().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let asleep = loop {
            if let Some(asleep) = Asleep::of(pid, tid) {
                break asleep;
            }
            assert!(Instant::now() < deadline, "it never fell asleep");
            std::thread::yield_now();
        };
        assert_eq!(asleep.call().number, libc::SYS_futex);
        assert_eq!(asleep.thread_area(), own);
        assert!(asleep.sleeps_on());
        // The same where no descriptor could be kept.
        assert!(asleep.schedstat.file.is_some(), "half of ours are free");
        let mut without = asleep.clone();
        without.schedstat.file = None;
        assert!(without.sleeps_on());
        wake.send(()).unwrap();
        told.recv().unwrap();
        assert!(!asleep.sleeps_on() && !without.sleeps_on());
        drop(wake);
        thread.join().unwrap().unwrap_err();
    }

    #[test]
    fn whoever_asks_runs() {
        // SAFETY: it takes nothing and returns a number.
        let own = unsafe { libc::gettid() };
        assert!(Asleep::of(std::process::id() as i32, own).is_none());
    }
}
