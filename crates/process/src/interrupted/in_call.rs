//! Determines which system call a thread is in. Used by `asleep`, `in_turn` and others here, and by the crates `enter`,
//! `frames` and `rss`.

use crate::memory::GuestMemory;
use crate::proc_file;
use crate::ptrace::Registers;
use std::io;
use vm::Memory;

/// Returns the number of the system call that a stopped thread is in. For a call with -ERESTART_RESTARTBLOCK that was stopped
/// before and has gone on waiting since, `orig_rax` is only `restart_syscall`; its arguments are still in the registers, and its
/// number is in the code. Negative = none.
pub fn call_of(memory: &GuestMemory, registers: &Registers) -> i64 {
    let number = registers.orig_rax as i64;
    let [first, second] = [registers.rdi, registers.rsi];
    restarted(memory, number, registers.rip, [first, second])
}

/// The same for a call with this number that will return to `pc`.
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
    // musl, and syscall(2), have the number in a register. The calls in question are told apart by their second argument: the
    // others have there how many descriptors are polled, 0 or 1 (`clock_nanosleep`), or an address.
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
        Self::read(pid, tid).ok()?
    }

    /// Reads the file; `None` if the thread runs.
    ///
    /// # Errors
    /// The thread is gone, or the file may not be read: it belongs to the user of the process, whoever may trace that.
    pub fn read(pid: i32, tid: i32) -> io::Result<Option<Self>> {
        proc_file::of_thread(pid, tid, "syscall").map(|line| Self::parse(&line))
    }

    /// Returns what the file would show of a thread with these registers, which stands still for us in a system call.
    pub fn of_registers(registers: &Registers) -> Self {
        let r = registers;
        InCall {
            number: r.orig_rax as i64,
            arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
            sp: r.rsp,
            pc: r.rip,
        }
    }

    /// Returns it with the number of the call that the thread has made, if a stop has interrupted that call and the kernel has
    /// continued it since: see [`call_of`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace;
    use std::time::{Duration, Instant};

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
            // SAFETY: the child makes system calls only; the memory that the arguments point to lives in the caller's frame, which
            // the child has a copy of.
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
}
