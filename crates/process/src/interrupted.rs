//! Keeps our stops from ending the guest's system calls with EINTR. Used by `stop`, `stop::thread` and others here, and
//! by crate `inject`.
//!
//! Most blocking calls return one of the kernel's restart codes (-512…-516, include/linux/errno.h) when they are interrupted, and go on by
//! themselves when no signal handler runs. Those of signal(7), "The following interfaces are never restarted", and sockets with
//! `SO_RCVTIMEO` or `SO_SNDTIMEO`, return -EINTR, which the program sees. At an interrupt stop, and at a stop before a signal's delivery,
//! that result is still in rax and the call's number in `orig_rax`. We replace the result by -ERESTARTNOHAND (-514). The kernel acts on it
//! when the thread goes on (`arch_do_signal_or_restart`, arch/x86/kernel/signal.c): if it runs a signal handler, the program gets EINTR as
//! it would without us; if not, it makes the call again. So no signal can come between our decision and the restart, and if lancet dies
//! after it, the kernel alone does the rest.
//!
//! A call that is made again would begin its whole timeout again. How long it has slept is determined before the stop (`Waiting`) and
//! subtracted from the timeout:
//!
//! | call | its timeout | made again with |
//! |---|---|---|
//! | `epoll_wait`, `epoll_pwait` | milliseconds in r10 | the rest in r10 |
//! | `epoll_pwait2`, `semtimedop` | `timespec` at r10 | the rest below the red zone, r10 leading there |
//! | `io_getevents` | `timespec` at r8 | the same, r8 |
//! | `rt_sigtimedwait` | `timespec` at rdx | the same, rdx |
//! | every other call (`semop`, `epoll_wait(-1)`, …) | none | the same arguments |
//! | of a socket: `recv…`, `send…`, `read`, `write`, `accept`, `connect`, `sendfile`, `splice` | of the socket | the same arguments; not at all once it is over (`sockets`) |
//! | `recvmmsg` | looked at only between messages | the same arguments |
//! | `select`, `pselect6`, `ppoll` | EINTR only if the kernel cannot write the rest | the same arguments |
//! | `io_uring_enter` | in a structure | the same arguments |
//! | `poll`, `nanosleep`, `clock_nanosleep`, `futex` | kept by the kernel | nothing is done: -ERESTART_RESTARTBLOCK |
//!
//! The calls of the last line are continued by the kernel with a system call of its own number, `restart_syscall` (219), which passes the
//! thread's seccomp filter; a filter that does not know it may kill the process. So in a thread with a filter these four are made again
//! like the others, with the rest of their timeout (`poll`: milliseconds in rdx; `nanosleep` and `clock_nanosleep`: a `timespec` at rdi and
//! rdx; `futex`: at r10).
//!
//! No timeout ends early. One of the sixth to ninth line ends later by what it had slept at the stop, and one in milliseconds ends later by
//! up to one millisecond for each stop. The memory below the red zone belongs to no code (psABI §3.2.2) and is needed only until the kernel
//! has read it at the call's start; the registers are those that a function may change.

mod in_call;
mod slept;
mod sockets;
mod timeouts;

pub use in_call::{InCall, call_of};
pub(crate) use slept::slept;

use crate::guest::has_filter;
use crate::memory::GuestMemory;
use crate::ptrace::{self, Registers};
use crate::stop::thread_state;
use slept::{Runs, Sched};
use std::io;
use std::time::{Duration, Instant};
use timeouts::{Timeout, kept_timeout_of, timeout_of};

/// `ERESTARTNOHAND`: the call is made again unless a signal handler runs.
const RESTART_UNLESS_HANDLED: i64 = -514;
/// `ERESTART_RESTARTBLOCK`: the call is continued by `restart_syscall` unless a signal handler runs.
const RESTART_BY_ITS_OWN_CALL: i64 = -516;

const RED_ZONE: u64 = 128;

/// Makes thread `tid`, which stands in an interrupt stop or before a signal's delivery, make its system call again if the program would
/// otherwise see an EINTR that we have caused; see the module's documentation.
pub(crate) fn restart_call(tid: i32) {
    // A thread whose registers cannot be read is being killed, or is a 32-bit one, which lancet does not open.
    let Ok(mut registers) = ptrace::registers_kept(tid) else {
        return;
    };
    if registers.rax as i64 == -i64::from(libc::EINTR)
        && timeout_of(registers.orig_rax as i64).is_some()
    {
        let call = InCall::of_registers(&registers);
        let call = (call.number, call.arguments, [call.sp, call.pc]);
        registers.rax = sockets::result(tid, &call, RESTART_UNLESS_HANDLED) as u64;
        let _ = ptrace::change_registers(tid, &registers);
    }
}

/// The same if the kernel would continue the call by `restart_syscall` and the thread has a seccomp filter. For a thread that was not seen
/// in this call before the stop, so that its timeout has hardly begun.
pub fn repeat_call(pid: i32, tid: i32) {
    let Ok(mut registers) = ptrace::registers_kept(tid) else {
        return;
    };
    let arguments = InCall::of_registers(&registers).arguments;
    if registers.rax as i64 == RESTART_BY_ITS_OWN_CALL
        && kept_timeout_of(registers.orig_rax as i64, &arguments).is_some()
        // If that cannot be read, the thread may have a filter.
        && has_filter(pid, tid).unwrap_or(true)
    {
        registers.rax = RESTART_UNLESS_HANDLED as u64;
        let _ = ptrace::change_registers(tid, &registers);
    }
}

/// What happens to the call of a thread that waits with a timeout when the thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is made again, with the rest of its timeout.
    Again(Timeout),
    /// The kernel would continue it by `restart_syscall`; it is made again instead.
    Instead(Timeout),
    /// The kernel continues it.
    Kept,
    /// That is found out in the stop, because the call may not be read before. The thread has slept since then.
    Unread(Instant),
}

impl Fate {
    /// Returns what happens to a call; `None` if a stop does not interrupt it.
    fn of(pid: i32, tid: i32, call: &InCall) -> Option<Self> {
        Some(match kept_timeout_of(call.number, &call.arguments) {
            None => Fate::Again(timeout_of(call.number)?),
            // If that cannot be read, the thread may have a filter.
            Some(timeout) if has_filter(pid, tid).unwrap_or(true) => Fate::Instead(timeout),
            Some(_) => Fate::Kept,
        })
    }
}

/// A thread that waits, with a timeout, in a call that a stop interrupts.
#[derive(Debug)]
pub(crate) struct Waiting {
    pid: i32,
    tid: i32,
    call: InCall,
    fate: Fate,
    /// When its timeout ends.
    deadline: Instant,
    /// Number of voluntary context switches that it had made.
    switches: u64,
    /// The same by a file that was opened before the stop and is closed after it; none if only `switches` tells.
    runs: Option<Runs>,
    /// Whether it slept until it was stopped.
    same: bool,
}

/// What is seen of a thread without knowing how long it has slept.
#[derive(Debug)]
pub(crate) enum Look {
    /// A stop changes nothing.
    Nothing,
    /// All that must be known.
    Known(Waiting),
    /// It waits in a call with this timeout, and how long it has slept must be asked.
    Asks(Waiting, Duration),
    /// The same where its call may not be read.
    Unread,
}

impl Waiting {
    /// Looks at a thread before it is stopped, as far as that can be done without knowing how long it has slept.
    pub fn look(pid: i32, tid: i32) -> Look {
        let call = match InCall::read(pid, tid) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Look::Unread,
            read => read.ok().flatten(),
        };
        let waits = |call: InCall| Some((Fate::of(pid, tid, &call)?, call));
        let Some((fate, call)) = call.and_then(waits) else {
            return Look::Nothing;
        };
        let waiting = Waiting {
            pid,
            tid,
            call,
            fate,
            deadline: Instant::now(),
            switches: 0,
            runs: None,
            same: false,
        };
        match waiting.whole_timeout() {
            _ if fate == Fate::Kept => Look::Known(waiting),
            None => Look::Nothing,
            Some(whole) => Look::Asks(waiting, whole),
        }
    }

    /// Looks at a thread before it is stopped, because the stop destroys the data that show how long it has slept.
    pub fn of(pid: i32, tid: i32) -> Option<Self> {
        match Self::look(pid, tid) {
            Look::Nothing => None,
            Look::Known(waiting) => Some(waiting),
            Look::Asks(waiting, whole) => waiting.slept_of(whole),
            Look::Unread => Self::unread(pid, tid),
        }
    }

    /// The same of a call with this timeout, with how long the thread has slept.
    fn slept_of(mut self, whole: Duration) -> Option<Self> {
        let (pid, tid) = (self.pid, self.tid);
        // Before it is read how long the thread has slept: one that wakes after that, and sleeps in the same call again, has run once
        // more when it is stopped.
        self.runs = Runs::until_now(pid, tid);
        let Some((slept, switches)) = slept(pid, tid) else {
            // This kernel does not show it (`CONFIG_SCHED_DEBUG`). A timeout that begins again at each of our stops may never end, and
            // hardly any filter forbids `restart_syscall`.
            let fate = std::mem::replace(&mut self.fate, Fate::Kept);
            return matches!(fate, Fate::Instead(_)).then_some(self);
        };
        // The time is taken after reading, so a delay here makes the remaining time longer, never shorter.
        self.deadline = Instant::now() + whole.saturating_sub(slept);
        self.switches = switches;
        // The call is read again, because all that was found must belong to one call.
        (InCall::of(pid, tid)? == self.call).then_some(self)
    }

    /// Notes how long a thread has slept whose call may not be read.
    fn unread(pid: i32, tid: i32) -> Option<Self> {
        matches!(thread_state(pid, tid), Some('S' | 'D')).then_some(())?;
        // As above: this comes first.
        let runs = Runs::until_now(pid, tid);
        let (slept, switches) = slept(pid, tid)?;
        let since = Instant::now().checked_sub(slept)?;
        Some(Waiting {
            pid,
            tid,
            call: InCall {
                number: -1,
                arguments: [0; 6],
                sp: 0,
                pc: 0,
            },
            fate: Fate::Unread(since),
            deadline: since,
            switches,
            runs,
            same: false,
        })
    }

    /// Finds out, now that it stands, in which call it has slept since then; `None` if that call needs nothing.
    fn learn(&mut self, since: Instant) -> Option<()> {
        let registers = ptrace::registers(self.tid).ok()?;
        self.call = InCall::of_registers(&registers);
        self.fate = Fate::of(self.pid, self.tid, &self.call)?;
        self.deadline = since + self.whole_timeout()?;
        Some(())
    }

    /// Returns the whole timeout of its call; `None` = it has none, or is made again with the same one.
    fn whole_timeout(&self) -> Option<Duration> {
        let (Fate::Again(timeout) | Fate::Instead(timeout)) = self.fate else {
            return None;
        };
        match timeout {
            Timeout::Unchanged => None,
            Timeout::Milliseconds(at) => {
                let milliseconds = u64::try_from(self.call.arguments[at] as i32).ok()?;
                Some(Duration::from_millis(milliseconds))
            }
            Timeout::Timespec(at) => {
                let mut bytes = [0; 16];
                let place = self.call.arguments[at];
                (place != 0).then_some(())?;
                let memory = GuestMemory::open_briefly(self.pid).ok()?;
                memory.read_bytes(place, &mut bytes).ok()?;
                let (seconds, nanoseconds) = bytes.split_at(8);
                let seconds = u64::from_le_bytes(seconds.try_into().ok()?);
                let nanoseconds = u64::from_le_bytes(nanoseconds.try_into().ok()?);
                let is_sane = seconds <= u64::from(u32::MAX) && nanoseconds < 1_000_000_000;
                is_sane.then(|| Duration::new(seconds, nanoseconds as u32))
            }
        }
    }

    /// Notes whether a thread that has just stopped slept until then. If it did, it has made one voluntary context switch since, for the
    /// stop. If not, it may be in another call that looks like the one before.
    pub fn confirm(&mut self) {
        if self.fate == Fate::Kept {
            return;
        }
        self.same =
            self.runs.as_ref().is_some_and(|runs| runs.is_one_more()) || self.has_switched_once();
        if let Fate::Unread(since) = self.fate
            && (!self.same || self.learn(since).is_none())
        {
            self.fate = Fate::Kept;
            return repeat_call(self.pid, self.tid);
        }
        if matches!(self.fate, Fate::Instead(_)) {
            repeat_call(self.pid, self.tid);
        }
    }

    /// Whether it has given up the processor once since it was looked at. This file takes the kernel ten times as long.
    fn has_switched_once(&self) -> bool {
        let now = Sched::read(&format!("/proc/{}/task/{}/sched", self.pid, self.tid));
        now.is_some_and(|now| now.switches == self.switches + 1)
    }

    /// Shortens the timeout of the call that the stopped thread will make again, if it is still the same call.
    pub fn shorten(&self) {
        if !self.same {
            return;
        }
        let Ok(mut registers) = ptrace::registers_kept(self.tid) else {
            return;
        };
        if registers.rax as i64 != RESTART_UNLESS_HANDLED || !self.is_call_of(&registers) {
            return;
        }
        let (Fate::Again(timeout) | Fate::Instead(timeout)) = self.fate else {
            return;
        };
        // The rest is at least one unit, because a call that is not over yet must not end now.
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (at, rest) = match timeout {
            Timeout::Unchanged => return,
            Timeout::Milliseconds(at) => (at, left.as_micros().div_ceil(1000).max(1) as u64),
            Timeout::Timespec(at) => {
                let place = registers.rsp.wrapping_sub(RED_ZONE + 16) & !15;
                let mut time = [0; 16];
                time[..8].copy_from_slice(&left.as_secs().to_le_bytes());
                time[8..].copy_from_slice(&u64::from(left.subsec_nanos()).to_le_bytes());
                // If this cannot be written, the call gets its whole timeout again.
                let written = GuestMemory::open_briefly(self.pid)
                    .and_then(|memory| memory.write(place, &time));
                if written.is_err() {
                    return;
                }
                (at, place)
            }
        };
        match at {
            0 => registers.rdi = rest,
            2 => registers.rdx = rest,
            3 => registers.r10 = rest,
            _ => registers.r8 = rest,
        }
        let _ = ptrace::set_registers(self.tid, &registers);
    }

    fn is_call_of(&self, now: &Registers) -> bool {
        now.orig_rax as i64 == self.call.number
            && InCall::of_registers(now).arguments == self.call.arguments
            && (now.rsp, now.rip) == (self.call.sp, self.call.pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that is killed for `restart_syscall` and waits for `milliseconds` by system call `number`, once. It writes into
    /// `word` when it begins to wait.
    fn sandboxed(number: i64, milliseconds: i64, word: *mut u32) -> i32 {
        let code = |code: u32, jt, jf, k| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let mut filter = [
            code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 219),
            code(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_KILL_PROCESS,
            ),
            code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: 4,
            filter: filter.as_mut_ptr(),
        };
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: milliseconds * 1_000_000,
        };
        let (time, wait) = (&raw const time as usize, libc::FUTEX_WAIT as usize);
        let arguments = match number {
            libc::SYS_poll => [0, 0, milliseconds as usize, 0],
            libc::SYS_nanosleep => [time, 0, 0, 0],
            libc::SYS_clock_nanosleep => [1, 0, time, 0],
            _ => [time, wait, 0, time],
        };
        let [a, b, c, d] = arguments;
        // The word that a futex waits for is the time's first one, which is 0.
        // SAFETY: the child makes system calls only, with what lives in this frame or is shared with its parent.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                    if libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const filter) != 0 {
                        libc::_exit(9);
                    }
                    word.write_volatile(1);
                    libc::syscall(number, a, b, c, d);
                    libc::_exit(0)
                }
                pid => pid,
            }
        }
    }

    #[test]
    fn a_filter_that_knows_no_restart_syscall_is_not_asked_for_it() {
        // SAFETY: a page of zeroes, shared with the children below.
        let word = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, 3, flags, -1, 0).cast::<u32>()
        };
        let calls = [
            libc::SYS_poll,
            libc::SYS_nanosleep,
            libc::SYS_clock_nanosleep,
            libc::SYS_futex,
        ];
        for number in calls {
            // SAFETY: the page lives.
            unsafe { word.write_volatile(0) };
            // On a busy machine this thread may see the word long after the child has begun to wait.
            let before = Instant::now();
            let pid = sandboxed(number, 300, word);
            // SAFETY: the page stays mapped until the end of the test; the child writes the word, hence the volatile read.
            while unsafe { word.read_volatile() } == 0 {
                std::thread::yield_now();
            }
            let (began, mut stops, mut status) = (Instant::now(), 0, 0);
            // SAFETY: our own child, which is waited for.
            while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
                stops += u32::from(crate::stop::Stop::one(pid, pid, false).is_ok());
                // Each stop rounds the milliseconds of `poll` up, so that without pauses it would hardly come to its end.
                let next = began + stops * Duration::from_millis(5);
                while Instant::now() < next {
                    std::thread::yield_now();
                }
            }
            let (took, all) = (began.elapsed(), before.elapsed());
            assert_eq!(status, 0, "{number}: it was killed, after {stops} stops");
            assert!(stops > 5, "{number}: {stops} stops");
            let longest = Duration::from_millis(300) * 2 + Duration::from_secs(1);
            assert!(all >= Duration::from_millis(290), "{number}: {all:?}");
            assert!(took < longest, "{number}: {took:?} with {stops} stops");
        }
    }

    #[test]
    fn closing_is_never_done_twice() {
        assert_eq!(timeout_of(libc::SYS_close), None);
        assert_eq!(timeout_of(libc::SYS_restart_syscall), None);
        // Not in a system call.
        assert_eq!(timeout_of(-1), None);
        assert_eq!(timeout_of(libc::SYS_sendfile), Some(Timeout::Unchanged));
        assert_eq!(
            timeout_of(libc::SYS_epoll_wait),
            Some(Timeout::Milliseconds(3))
        );
    }
}
