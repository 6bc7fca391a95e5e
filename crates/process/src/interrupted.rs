//! System calls that the kernel would end with EINTR because we stop their thread, and how they go on instead.
//!
//! Most blocking calls answer an interrupt with one of the kernel's restart codes (-512…-516, include/linux/errno.h),
//! and go on by themselves when no signal handler runs. Those of signal(7), "The following interfaces are never
//! restarted", and sockets with `SO_RCVTIMEO` or `SO_SNDTIMEO`, answer -EINTR, and the program sees it. At an interrupt
//! stop, and at a stop before a signal's delivery, that answer still stands in rax and the call's number in `orig_rax`.
//! We put -ERESTARTNOHAND (-514) in its place. The kernel decides by that when the thread goes on
//! (`arch_do_signal_or_restart`, arch/x86/kernel/signal.c): if it runs a signal handler, the program gets EINTR as it
//! would without us; if not, it makes the call again. So no signal can come between our decision and the restart, and
//! if we die after that, the kernel alone does the rest.
//!
//! A call that is made again begins its whole timeout again. How long it has slept is found out before the stop
//! (`Waiting`) and taken off the timeout:
//!
//! | call | its timeout | made again with |
//! |---|---|---|
//! | `epoll_wait`, `epoll_pwait` | milliseconds in r10 | the rest in r10 |
//! | `epoll_pwait2`, `semtimedop` | `timespec` at r10 | the rest below the red zone, r10 leading there |
//! | `io_getevents` | `timespec` at r8 | the same, r8 |
//! | `rt_sigtimedwait` | `timespec` at rdx | the same, rdx |
//! | `semop`, `epoll_wait(-1)`, … | none | the same arguments |
//! | `recv…`, `send…`, `read`, `write`, `accept`, `connect` | of the socket | the same arguments: the whole timeout |
//! | `recvmmsg` | looked at only between messages | the same arguments |
//! | `select`, `pselect6`, `ppoll` | EINTR only if the kernel cannot write the rest | the same arguments |
//! | `io_uring_enter` | in a structure | the same arguments |
//! | `poll`, `nanosleep`, `clock_nanosleep`, `futex` | kept by the kernel | nothing is done: -ERESTART_RESTARTBLOCK |
//!
//! No timeout ends early; one of the fifth to ninth line ends later by what it had slept when we came. The memory below
//! the red zone belongs to nobody (psABI §3.2.2) and is needed only until the kernel has read it at the call's start;
//! the registers are those a function may change.

use crate::memory::GuestMemory;
use crate::ptrace::{self, Registers};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use vm::Memory;

/// `ERESTARTNOHAND`: made again unless a signal handler runs.
const RESTART_UNLESS_HANDLED: i64 = -514;

const RED_ZONE: u64 = 128;

/// Where a call has its relative timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeout {
    /// In none of its arguments, or it is left as it is.
    Unchanged,
    /// Milliseconds as an `int` in this argument; negative = for ever.
    Milliseconds(usize),
    /// A `timespec` that this argument leads to, if it is not null.
    Timespec(usize),
}

/// The calls that are made again after EINTR, which for all of them but `connect` means that nothing has been done; `connect` on a
/// connection that it has begun waits for that one (`__inet_stream_connect`, net/ipv4/af_inet.c). `close` is not among them: it has
/// closed the descriptor.
const CALLS: [(i64, Timeout); 23] = [
    (libc::SYS_epoll_wait, Timeout::Milliseconds(3)),
    (libc::SYS_epoll_pwait, Timeout::Milliseconds(3)),
    (libc::SYS_epoll_pwait2, Timeout::Timespec(3)),
    (libc::SYS_semop, Timeout::Unchanged),
    (libc::SYS_semtimedop, Timeout::Timespec(3)),
    (libc::SYS_io_getevents, Timeout::Timespec(4)),
    (libc::SYS_rt_sigtimedwait, Timeout::Timespec(2)),
    (libc::SYS_recvfrom, Timeout::Unchanged),
    (libc::SYS_recvmsg, Timeout::Unchanged),
    (libc::SYS_recvmmsg, Timeout::Unchanged),
    (libc::SYS_sendto, Timeout::Unchanged),
    (libc::SYS_sendmsg, Timeout::Unchanged),
    (libc::SYS_sendmmsg, Timeout::Unchanged),
    (libc::SYS_read, Timeout::Unchanged),
    (libc::SYS_readv, Timeout::Unchanged),
    (libc::SYS_write, Timeout::Unchanged),
    (libc::SYS_writev, Timeout::Unchanged),
    (libc::SYS_accept, Timeout::Unchanged),
    (libc::SYS_accept4, Timeout::Unchanged),
    (libc::SYS_connect, Timeout::Unchanged),
    (libc::SYS_select, Timeout::Unchanged),
    (libc::SYS_pselect6, Timeout::Unchanged),
    (libc::SYS_ppoll, Timeout::Unchanged),
];
const IO_URING_ENTER: i64 = 426;

fn timeout_of(number: i64) -> Option<Timeout> {
    if number == IO_URING_ENTER {
        return Some(Timeout::Unchanged);
    }
    let found = CALLS.iter().find(|(of, _)| *of == number);
    found.map(|(_, timeout)| *timeout)
}

/// Makes thread `tid`, which stands in an interrupt stop or before a signal's delivery, make its system call again
/// where the program would otherwise see an EINTR that is ours; see the module's text.
pub(crate) fn restart_call(tid: i32) {
    // A thread whose registers cannot be read is being killed, or is a 32-bit one, which lancet does not open.
    let Ok(mut registers) = ptrace::registers(tid) else {
        return;
    };
    if registers.rax as i64 == -i64::from(libc::EINTR)
        && timeout_of(registers.orig_rax as i64).is_some()
    {
        registers.rax = RESTART_UNLESS_HANDLED as u64;
        let _ = ptrace::set_registers(tid, &registers);
    }
}

/// Number of the system call that a stopped thread stands in. Of one with -ERESTART_RESTARTBLOCK that has been stopped before, and
/// goes on waiting since, `orig_rax` says no more than `restart_syscall`; its arguments are still in the registers, and
/// its number is in the code. Negative = none.
pub fn call_of(memory: &GuestMemory, registers: &Registers) -> i64 {
    let number = registers.orig_rax as i64;
    let [first, second] = [registers.rdi, registers.rsi];
    restarted(memory, number, registers.rip, [first, second])
}

/// The same for a call of this number, behind whose instruction the thread goes on at `pc`.
fn restarted(memory: &dyn Memory, number: i64, pc: u64, [first, second]: [u64; 2]) -> i64 {
    if number != libc::SYS_restart_syscall {
        return number;
    }
    // glibc: `mov $number,%eax; syscall`.
    let mut code = [0; 7];
    let read = memory.read(pc.wrapping_sub(7), &mut code);
    if let ([0xb8, a, b, c, d, 0x0f, 0x05], Ok(())) = (code, read) {
        return i64::from(i32::from_le_bytes([a, b, c, d]));
    }
    // musl, and syscall(2), have the number in a register. Of the calls in question the others have as their second argument how
    // many descriptors are polled, 0 or 1 (`clock_nanosleep`), or an address.
    let operation = second as i32 & !libc::FUTEX_CLOCK_REALTIME;
    let waits =
        [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET].map(|wait| wait | libc::FUTEX_PRIVATE_FLAG);
    if second >> 32 == 0 && waits.contains(&operation) && first.is_multiple_of(4) {
        return libc::SYS_futex;
    }
    number
}

/// What `/proc/PID/task/TID/syscall` shows of a thread that sleeps in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InCall {
    /// Number of the system call; negative = none (a page fault).
    pub number: i64,
    /// Arguments of the call, in the kernel's order (rdi, rsi, rdx, r10, r8, r9), whatever the call takes; 0 if there is no call.
    pub arguments: [u64; 6],
    /// The thread's stack pointer.
    pub sp: u64,
    /// Address at which it goes on, behind the `syscall` instruction.
    pub pc: u64,
}

impl InCall {
    /// Reads the file; `None` if the thread runs, or if we may not read it.
    pub fn of(pid: i32, tid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
    }

    /// Returns it with the number of the call that the thread has made, where a stop has interrupted that and the kernel has
    /// gone on with it since: see [`call_of`].
    pub fn made(mut self, memory: &dyn Memory) -> Self {
        let [first, second, ..] = self.arguments;
        self.number = restarted(memory, self.number, self.pc, [first, second]);
        self
    }

    /// Parses a line of `proc_pid_syscall` (fs/proc/base.c): `running`, or number, arguments, sp and pc, or `-1`, sp
    /// and pc.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        if number != -1 {
            for argument in &mut arguments {
                *argument = hexadecimal()?;
            }
        }
        Some(InCall {
            number,
            arguments,
            sp: hexadecimal()?,
            pc: hexadecimal()?,
        })
    }
}

/// A thread that waits, with a timeout, in a call which has to be made again if it is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pid: i32,
    tid: i32,
    call: InCall,
    /// When its timeout ends.
    deadline: Instant,
    /// How many voluntary context switches it had made.
    switches: u64,
    /// Whether it slept until it was stopped.
    same: bool,
}

impl Waiting {
    /// Looks at a thread before it is stopped, because a stop destroys what shows since when it sleeps.
    pub fn of(pid: i32, tid: i32) -> Option<Self> {
        let call = InCall::of(pid, tid)?;
        let whole = match timeout_of(call.number)? {
            Timeout::Unchanged => return None,
            Timeout::Milliseconds(at) => {
                Duration::from_millis(u64::try_from(call.arguments[at] as i32).ok()?)
            }
            Timeout::Timespec(at) => {
                let mut bytes = [0; 16];
                let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
                let place = call.arguments[at];
                (place != 0).then_some(())?;
                memory.read_exact_at(&mut bytes, place).ok()?;
                let (seconds, nanoseconds) = bytes.split_at(8);
                let seconds = u64::from_le_bytes(seconds.try_into().ok()?);
                let nanoseconds = u64::from_le_bytes(nanoseconds.try_into().ok()?);
                if seconds > u64::from(u32::MAX) || nanoseconds >= 1_000_000_000 {
                    return None;
                }
                Duration::new(seconds, nanoseconds as u32)
            }
        };
        let (slept, switches) = slept(pid, tid)?;
        // Taken after the look: a delay here makes the remaining time longer, never shorter.
        let now = Instant::now();
        // Read again: what was found out must belong to one call.
        (InCall::of(pid, tid)? == call).then_some(())?;
        Some(Waiting {
            pid,
            tid,
            call,
            deadline: now + whole.saturating_sub(slept),
            switches,
            same: false,
        })
    }

    /// Finds out whether the thread, which has just stopped, slept until then. If it did it has made one voluntary
    /// context switch since, for the stop. If not, it may be in another call that looks like the one before.
    pub fn confirm(&mut self) {
        let now = Sched::read(&format!("/proc/{}/task/{}/sched", self.pid, self.tid));
        self.same = now.is_some_and(|now| now.switches == self.switches + 1);
    }

    /// Id of the thread in the PID namespace of lancet.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Makes the call that the stopped thread will make again use only what is left of its timeout, if it is this one.
    pub fn shorten(&self) {
        if !self.same {
            return;
        }
        let Ok(mut registers) = ptrace::registers(self.tid) else {
            return;
        };
        if registers.rax as i64 != RESTART_UNLESS_HANDLED || !self.is_call_of(&registers) {
            return;
        }
        // At least one unit: a call that is not over yet must not end now.
        let left = self.deadline.saturating_duration_since(Instant::now());
        match timeout_of(self.call.number) {
            Some(Timeout::Milliseconds(_)) => {
                registers.r10 = left.as_micros().div_ceil(1000).max(1) as u64;
            }
            Some(Timeout::Timespec(at)) => {
                let place = registers.rsp.wrapping_sub(RED_ZONE + 16) & !15;
                let mut time = [0; 16];
                time[..8].copy_from_slice(&left.as_secs().to_le_bytes());
                time[8..].copy_from_slice(&u64::from(left.subsec_nanos()).to_le_bytes());
                let memory = fs::File::options()
                    .write(true)
                    .open(format!("/proc/{}/mem", self.pid));
                // Where this cannot be written the call has its whole timeout again.
                if memory.is_err()
                    || memory.is_ok_and(|memory| memory.write_all_at(&time, place).is_err())
                {
                    return;
                }
                match at {
                    2 => registers.rdx = place,
                    3 => registers.r10 = place,
                    _ => registers.r8 = place,
                }
            }
            _ => return,
        }
        let _ = ptrace::set_registers(self.tid, &registers);
    }

    fn is_call_of(&self, now: &Registers) -> bool {
        let arguments = [now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9];
        now.orig_rax as i64 == self.call.number
            && arguments == self.call.arguments
            && (now.rsp, now.rip) == (self.call.sp, self.call.pc)
    }
}

/// Returns how long a thread has been asleep, or less, and how many voluntary context switches it had made. The kernel
/// keeps when it last ran (`se.exec_start`), by a clock of the processor that it ran on, which must not be compared
/// with another processor's; so this thread moves there for a moment. `None` if it cannot.
pub(crate) fn slept(pid: i32, tid: i32) -> Option<(Duration, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // `processor` is field 39 (proc(5)), the 37th behind the name.
    let processor: usize = stat.rsplit(") ").next()?.split(' ').nth(36)?.parse().ok()?;
    let sleeper = Sched::read(&format!("/proc/{pid}/task/{tid}/sched"))?;
    // SAFETY: sets of bits for which zero is valid, their sizes, and times that live through the calls.
    let now = unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        let mut there: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if processor >= size * 8 || libc::sched_getaffinity(0, size, &raw mut before) != 0 {
            return None;
        }
        libc::CPU_SET(processor, &mut there);
        if libc::sched_setaffinity(0, size, &raw const there) != 0 {
            return None;
        }
        // Makes the kernel bring our own `se.exec_start` up to date (`task_sched_runtime`, kernel/sched/core.c).
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        let now = Sched::read("/proc/thread-self/sched");
        libc::sched_setaffinity(0, size, &raw const before);
        now?
    };
    Some((
        now.last_ran.saturating_sub(sleeper.last_ran),
        sleeper.switches,
    ))
}

/// What `/proc/PID/task/TID/sched` shows (`proc_sched_show_task`, kernel/sched/debug.c).
#[derive(Debug, PartialEq, Eq)]
struct Sched {
    last_ran: Duration,
    switches: u64,
}

impl Sched {
    fn read(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    /// Parses the file. Times are milliseconds with six digits behind the point; 0 means not known.
    fn parse(text: &str) -> Option<Self> {
        let value = |name| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.rsplit_once(':')?.1.trim())
        };
        let (milliseconds, rest) = value("se.exec_start")?.split_once('.')?;
        let nanoseconds = milliseconds.parse::<u64>().ok()?.checked_mul(1_000_000)?;
        let nanoseconds = nanoseconds.checked_add(rest.parse().ok()?)?;
        (nanoseconds != 0 && rest.len() == 6).then_some(())?;
        Some(Sched {
            last_ran: Duration::from_nanos(nanoseconds),
            switches: value("nr_voluntary_switches")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_about_a_call_is_read() {
        assert_eq!(InCall::parse("running\n"), None);
        let fault = InCall::parse("-1 0x7ffe10 0x401000\n").unwrap();
        assert_eq!(
            (fault.number, fault.sp, fault.pc),
            (-1, 0x7f_fe10, 0x40_1000)
        );
        let call = InCall::parse("232 0x5 0x7ffe 0x1 0xc8 0x0 0x8 0x7ffe10 0x401000\n").unwrap();
        assert_eq!((call.number, call.arguments[3]), (232, 200));
        assert_eq!((call.sp, call.pc), (0x7f_fe10, 0x40_1000));
        assert_eq!(InCall::parse("232 0x5 0x7ffe\n"), None);
    }

    /// The call that a process which waits in system call `number` stands in at each of three stops.
    fn stopped_in(number: i64, arguments: [usize; 4]) -> Vec<i64> {
        let [a, b, c, d] = arguments;
        // SAFETY: the child makes system calls only.
        let pid = match unsafe { libc::fork() } {
            // SAFETY: as above; what the arguments lead to lives in the caller's frame.
            0 => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match number {
                    libc::SYS_clock_nanosleep => {
                        libc::clock_nanosleep(a as i32, b as i32, c as *const _, d as *mut _);
                    }
                    _ => {
                        libc::syscall(number, a, b, c, d);
                    }
                }
                libc::_exit(0)
            },
            pid => pid,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let memory = GuestMemory::open(pid).expect("our child");
        let calls = (0..3).map(|_| {
            // It may be seen in another call on its way, or between two looks in none.
            let sleeps = || {
                let call = InCall::of(pid, pid).filter(|call| call.number >= 0);
                call.is_some_and(|call| call.made(&memory).number == number)
            };
            while !sleeps() {
                let call = InCall::of(pid, pid);
                assert!(Instant::now() < deadline, "not in {number}: {call:?}");
                std::thread::yield_now();
            }
            let stop = crate::stop::Stop::one(pid, pid, false).expect("our child stops");
            let registers = ptrace::registers(pid).expect("it stands still");
            assert_eq!(registers.rax as i64, -516, "ERESTART_RESTARTBLOCK");
            stop.release();
            call_of(&memory, &registers)
        });
        let calls = calls.collect();
        // SAFETY: our own child, which is waited for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        calls
    }

    #[test]
    fn a_call_that_goes_on_after_a_stop_is_known_by_its_number() {
        let minute = libc::timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let (word, minute) = (0u32, (&raw const minute) as usize);
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let arguments = [(&raw const word) as usize, wait, 0, minute];
        let futex = libc::SYS_futex;
        assert_eq!(stopped_in(futex, arguments), [futex; 3]);
        let sleep = libc::SYS_clock_nanosleep;
        assert_eq!(stopped_in(sleep, [1, 0, minute, 0]), [sleep; 3]);
    }

    #[test]
    fn when_a_thread_last_ran_is_read() {
        let text = "a (1, #threads: 1)\n----\nse.exec_start  :  5383833.846147\nnr_voluntary_switches : 12\n";
        let read = Sched::parse(text).unwrap();
        assert_eq!(read.last_ran, Duration::from_nanos(5_383_833_846_147));
        assert_eq!(read.switches, 12);
        let unknown = "se.exec_start : 0.000000\nnr_voluntary_switches : 12\n";
        assert_eq!(Sched::parse(unknown), None);
        assert_eq!(Sched::parse(""), None);
    }

    #[test]
    fn closing_is_never_done_twice() {
        assert_eq!(timeout_of(libc::SYS_close), None);
        assert_eq!(
            timeout_of(libc::SYS_epoll_wait),
            Some(Timeout::Milliseconds(3))
        );
    }
}
