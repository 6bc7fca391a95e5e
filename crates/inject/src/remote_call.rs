//! Remote calls: system calls and functions that a stopped guest thread runs for us. Before the first of them, the return frame is put on
//! its stack: the signal frame by which the thread goes on as before. Used by `allowed`, `doors` and others here, and
//! by the crates `hooks`, `patch` and `enter`.
//!
//! ```text
//!   high addresses   the thread's own frames
//!   rsp ───────────► ───────────────────────
//!                    red zone, 128 bytes        its leaf function may use it (SysV ABI §3.2.2)
//!                    XSAVE area, 64-aligned     x87, SSE, AVX … as they are now
//!         U ───────► struct ucontext            registers and signal mask as they are now
//!         U - 8 ───► address of __restore_rt    what the called code returns to
//!   low addresses    the called code's frames
//! ```
//!
//! `__restore_rt` is libc's `mov $15,%rax; syscall`: `rt_sigreturn` reads the return frame at the stack pointer and restores the registers
//! and the mask from it. So at every instant the thread either is where it was, or runs code that returns into `rt_sigreturn`: if lancet is
//! killed, the kernel alone brings it back.
//!
//! While lancet lives it restores the registers itself, because that keeps what `rt_sigreturn` would lose: the restart of an interrupted
//! system call. If lancet dies, such a call restarts or returns EINTR as after a signal handler.
//!
//! The return frame is made in `return_frame`. If the thread stands on a stack with unknown bounds, frame and call are at the unused end of
//! the main thread's stack instead: `room`.

mod refused;
mod return_frame;
mod room;
mod signals;
mod waiting;
mod while_others_run;

pub use while_others_run::Work;

use nix::errno::Errno;
use process::error::{Afterwards, Error, Result};
use process::guest::ended_thread;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::ptrace::{self, Event, Registers};
use process::stop;
use refused::why_no_remote_calls;
use return_frame::{signal_xsave, ucontext};
use room::{Positions, Room};
use signals::{SYNCHRONOUS, send_again, synchronous_mask};
use std::time::{Duration, Instant};

/// Addresses of instructions in the guest's own executable mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gadgets {
    /// Address of `syscall; ret`, by which a thread makes system calls for us.
    pub syscall: u64,
    /// Address of `mov $15,%rax; syscall`, libc's `__restore_rt`, by which a thread calls `rt_sigreturn`.
    pub restore: u64,
}

/// How long a call may take if its thread sleeps, because it then waits for something that may never come.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// The same for a call that has the VM's lock and may collect garbage.
const LONG_CALL_PATIENCE: Duration = Duration::from_secs(30);
/// Time between two checks of a thread whose call takes long.
const LOOK: Duration = Duration::from_micros(50);

/// `orig_rax` of a thread that is in no system call, so that the kernel restarts none.
const NO_SYSCALL: u64 = u64::MAX;
/// `munmap` of nothing at an address that is not aligned to a page: the kernel refuses it with EINVAL before it does anything.
const HARMLESS_UNMAP: (u64, u64) = (1, 0);
const TRAP_FLAG: u64 = 0x100;
const DIRECTION_FLAG: u64 = 0x400;

/// A thread of a stopped guest that makes calls for us until it is given back.
#[derive(Debug)]
pub struct RemoteThread<'a> {
    pid: i32,
    tid: i32,
    memory: &'a GuestMemory,
    maps: &'a Maps,
    gadgets: Gadgets,
    saved: Registers,
    saved_state: Vec<u8>,
    saved_mask: u64,
    /// The position of the return frame: `frame` is `U` in the picture.
    at: Positions,
    room: Room,
    /// Signals that others have sent and that would look like faults of ours; they are sent again when the thread is back.
    held: Vec<libc::siginfo_t>,
    /// Whether its registers are those of a call, so that they must be restored.
    away: bool,
    /// Whether its call has not returned and is no longer waited for: only its return frame brings it back.
    left_away: bool,
    /// Whether signals with handlers are put off while it is in [`call_freely`](Self::call_freely).
    pub(crate) puts_off: bool,
}

/// Returns the registers with which a thread that has these begins a call: at `rip`, with `rsp` and `rax`.
fn departing(saved: &Registers, [rip, rsp, rax]: [u64; 3], arguments: [u64; 6]) -> Registers {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    Registers {
        rip,
        rsp,
        rax,
        orig_rax: NO_SYSCALL,
        // The ABI requires a clear direction flag at a function's entry, and the thread must not single-step.
        eflags: saved.eflags & !(DIRECTION_FLAG | TRAP_FLAG),
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..*saved
    }
}

impl<'a> RemoteThread<'a> {
    /// Prepares thread `tid`, which stands in an interrupt stop of ours, for remote calls. They run on its own stack if that is known to
    /// have room, otherwise at the unused end of the main thread's (see `room`).
    ///
    /// # Errors
    /// [`Error::NothingToBorrow`] where the thread is inside a restartable sequence, or no room is proven.
    pub fn new(
        tid: i32,
        memory: &'a GuestMemory,
        gadgets: Gadgets,
        maps: &'a Maps,
    ) -> Result<Self> {
        let pid = memory.pid();
        let explain = |errno| ptrace::explain(pid, "reading the registers of a thread", errno);
        let saved = ptrace::registers(tid).map_err(explain)?;
        // The program may have turned it on since the process was opened.
        if let Some(reason) = why_no_remote_calls(pid, tid) {
            return Err(Error::NotAGuest { pid, reason });
        }
        if in_restartable_sequence(tid, memory, saved.rip) {
            return Err(Error::NothingToBorrow {
                pid,
                reason: format!("thread {tid} is inside a restartable sequence"),
            });
        }
        let saved_state = ptrace::extended_state(tid).map_err(explain)?;
        let saved_mask = ptrace::signal_mask(tid).map_err(explain)?;

        let state = saved_state.len() as u64;
        let refused = |reason| Error::NothingToBorrow { pid, reason };
        let mut room =
            room::find(tid, &saved, state, memory, maps).ok_or_else(|| unknown_stack(pid, tid))?;
        let at = Positions::below(room.below, state);
        if at.lowest() < room.low {
            room = room::grown(room, at.lowest(), memory, maps).ok_or_else(|| {
                refused(format!(
                    "thread {tid} has no room left on its stack: try again when it has returned from some calls"
                ))
            })?;
        }
        memory.write(
            at.area,
            &signal_xsave(&saved_state).ok_or_else(|| Error::NothingToBorrow {
                pid,
                reason: "this processor's register layout is not known".into(),
            })?,
        )?;
        memory.write(at.frame, &ucontext(&saved, saved_mask, at.area))?;
        Ok(RemoteThread {
            pid,
            tid,
            memory,
            maps,
            gadgets,
            saved,
            saved_state,
            saved_mask,
            at,
            room,
            held: Vec::new(),
            away: false,
            left_away: false,
            puts_off: false,
        })
    }

    /// Makes a system call in the guest.
    pub fn syscall(&mut self, name: &'static str, number: i64, arguments: [u64; 6]) -> Result<u64> {
        let value = self.run(self.gadgets.syscall, number as u64, arguments)? as i64;
        if (-4095..0).contains(&value) {
            return Err(Error::Remote {
                pid: self.pid,
                call: name,
                errno: Errno::from_raw(-value as i32),
            });
        }
        Ok(value as u64)
    }

    /// Calls the function at `address` in the guest. Its return value is lost when the thread is restored, so it answers in memory.
    pub fn call(&mut self, address: u64, argument: u64) -> Result<()> {
        self.run(address, 0, [argument, 0, 0, 0, 0, 0]).map(drop)
    }

    /// Calls the function at `address` in the guest, and `prepare` when that has returned from its first system call, with the result of it.
    /// The thread stands still meanwhile; if lancet dies there, the function goes on without it.
    pub fn call_prepared(
        &mut self,
        address: u64,
        argument: u64,
        prepare: impl FnOnce(u64),
    ) -> Result<()> {
        let mut prepare = Some(prepare);
        let arguments = [argument, 0, 0, 0, 0, 0];
        self.run_and_tell((address, 0), arguments, &mut |result| {
            if let Some(prepare) = prepare.take() {
                prepare(result);
            }
        })
        .map(drop)
    }

    /// Id of its process in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Id of the thread in the PID namespace of lancet.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Returns the mappings of the process as they were before it was stopped.
    pub fn maps(&self) -> &'a Maps {
        self.maps
    }

    /// Returns the registers that it had when it was stopped, and will have again when it is given back.
    pub fn registers(&self) -> &Registers {
        &self.saved
    }

    /// Returns the address of sixteen bytes for the result of a system call: the lowest of the room for called functions, which a system
    /// call does not use.
    pub fn scratch(&self) -> u64 {
        (self.at.lowest() + 15) & !15
    }

    /// Makes it go on at `pc` instead of where it stood, whether we restore it or its return frame does.
    pub fn go_on_at(&mut self, pc: u64) -> Result<()> {
        self.saved.rip = pc;
        let context = ucontext(&self.saved, self.saved_mask, self.at.area);
        self.memory.write(self.at.frame, &context)?;
        if !self.away {
            ptrace::set_registers(self.tid, &self.saved).map_err(|errno| self.explain(errno))?;
        }
        Ok(())
    }

    /// Restores the thread to where it was.
    pub fn give_back(mut self) -> Result<()> {
        self.restore()
    }

    fn explain(&self, errno: Errno) -> Error {
        ptrace::explain(self.pid, "using a remote thread", errno)
    }

    /// Makes the thread run from `address` until it would enter `rt_sigreturn`, and parks it there. Returns the result of the first system
    /// call that it made. After an error the thread is brought back, if it stands, and the error says what has become of it.
    fn run(&mut self, address: u64, rax: u64, arguments: [u64; 6]) -> Result<u64> {
        self.run_and_tell((address, rax), arguments, &mut |_| {})
    }

    /// The same; `tell` is called with that result, while the thread stands at the end of the call.
    fn run_and_tell(
        &mut self,
        entry: (u64, u64),
        arguments: [u64; 6],
        tell: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        self.run_and_park(entry, arguments, tell)
            .map_err(|error| match error {
                Error::RemoteFault { .. } | Error::RemoteTimeout { .. } => {
                    error.with_thread(self.brought_back())
                }
                error => error,
            })
    }

    /// Restores the thread after a call that failed, and reads what has become of it.
    fn brought_back(&mut self) -> Afterwards {
        let restored = self.restore();
        match ptrace::registers(self.tid) {
            _ if self.left_away => Afterwards::InCall,
            Ok(now) if restored.is_ok() && is_same_place(&now, &self.saved) => Afterwards::Back,
            _ => Afterwards::Unknown,
        }
    }

    fn run_and_park(
        &mut self,
        (address, rax): (u64, u64),
        arguments: [u64; 6],
        tell: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        self.depart(address, rax, arguments)?;
        // The mask is set after the registers: if lancet dies in between, the return frame restores the mask. In the other order the thread
        // would keep ours.
        ptrace::set_signal_mask(self.tid, !synchronous_mask() | self.saved_mask)
            .map_err(|errno| self.explain(errno))?;
        let mut result = 0;
        let mut syscalls = 0;
        let mut signal = 0;
        let mut deadline = Instant::now() + CALL_PATIENCE;
        loop {
            ptrace::resume_to_syscall(self.tid, signal).map_err(|errno| self.explain(errno))?;
            signal = 0;
            match self.wait(deadline)? {
                Event::Syscall => {
                    let now = ptrace::registers(self.tid).map_err(|errno| self.explain(errno))?;
                    // No other system call is made with this stack pointer.
                    if now.orig_rax == libc::SYS_rt_sigreturn as u64 && now.rsp == self.at.frame {
                        self.park(now, deadline)?;
                        return Ok(result);
                    }
                    // The second stop is the end of the first call.
                    syscalls += 1;
                    if syscalls == 2 {
                        result = now.rax;
                        tell(result);
                        deadline = Instant::now() + CALL_PATIENCE;
                    }
                }
                event => signal = self.unexpected(event)?,
            }
        }
    }

    /// Sets the thread's registers for a call. From here on, if lancet dies, the return frame on its stack brings it back.
    fn depart(&mut self, address: u64, rax: u64, arguments: [u64; 6]) -> Result<()> {
        self.memory
            .write(self.at.frame - 8, &self.gadgets.restore.to_le_bytes())?;
        let rsp = self.at.frame - 8;
        let registers = departing(&self.saved, [address, rsp, rax], arguments);
        self.away = true;
        ptrace::set_registers(self.tid, &registers).map_err(|errno| self.explain(errno))
    }

    /// Handles a thread that stands at the entry of `rt_sigreturn`: skips that call and brings the thread into an interrupt stop instead,
    /// from which the kernel restarts a restored system call. This is one store of registers, so the thread runs `rt_sigreturn` next if
    /// lancet dies before or after it.
    fn park(&mut self, mut now: Registers, deadline: Instant) -> Result<()> {
        // It is not set to "no call", because a seccomp filter would be asked about that number, and may kill for it.
        now.orig_rax = libc::SYS_munmap as u64;
        (now.rdi, now.rsi) = HARMLESS_UNMAP;
        now.rip = self.gadgets.restore;
        ptrace::set_registers(self.tid, &now).map_err(|errno| self.explain(errno))?;
        ptrace::interrupt(self.tid).map_err(|errno| self.explain(errno))?;
        let mut signal = 0;
        loop {
            ptrace::resume(self.tid, signal).map_err(|errno| self.explain(errno))?;
            match self.wait(deadline)? {
                Event::Interrupted(_) => return Ok(()),
                event => signal = self.unexpected(event)?,
            }
        }
    }

    /// Handles what may happen to a thread during a call. Returns the signal with which it goes on (0 = none).
    fn unexpected(&mut self, event: Event) -> Result<i32> {
        match event {
            Event::Signal(signal) if SYNCHRONOUS.contains(&signal) => {
                match ptrace::signal_information(self.tid) {
                    // Another process or a timer has sent the signal (kill(2), sigqueue(3)): siginfo(2), `SI_USER` and below.
                    Ok(sent) if sent.si_code <= libc::SI_USER => {
                        self.held.push(sent);
                        Ok(0)
                    }
                    _ => {
                        let now =
                            ptrace::registers(self.tid).map_err(|errno| self.explain(errno))?;
                        Err(Error::RemoteFault {
                            pid: self.pid,
                            signal,
                            address: now.rip,
                            thread: Afterwards::Unknown,
                        })
                    }
                }
            }
            // SIGSTOP cannot be blocked. It is delivered at once: the kernel then notes that the process is stopped, and a SIGCONT that
            // comes later undoes that. This thread still goes on for us (PTRACE_CONT), and stops with the others when it is let go. If it
            // were held and sent again, it would overtake a SIGCONT that came meanwhile, and the process would stay stopped for ever.
            Event::Signal(signal) => Ok(signal),
            Event::Exited(_) | Event::Killed(_) => {
                self.away = false;
                Err(ended_thread(self.pid, self.tid))
            }
            Event::Special(
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
            ) => {
                // Code of the VM that a call has led to (a finalizer) has made a child. No other code waits for that child.
                if let Ok(child) = ptrace::event_message(self.tid) {
                    let _ = stop::let_go(child as i32, child as i32);
                }
                Ok(0)
            }
            Event::Special(event) => {
                // It is being killed, or runs another program, which its tracer must handle.
                self.away = false;
                ptrace::put_back(self.tid, event);
                Err(Error::AtEvent { tid: self.tid })
            }
            Event::Interrupted(_) | Event::Syscall | Event::Nothing => Ok(0),
        }
    }

    /// Restores extended state, mask and registers. The registers come last: until then the thread's next instructions are those of
    /// `rt_sigreturn`.
    fn restore(&mut self) -> Result<()> {
        if !self.away {
            return self.clear_unused_end();
        }
        if ptrace::registers(self.tid).is_err() {
            // The thread runs: its call has not returned, and must not be interrupted in the middle of its work. Its return frame brings it
            // back.
            (self.away, self.left_away) = (false, true);
            return self.catch();
        }
        ptrace::set_extended_state(self.tid, &self.saved_state)
            .map_err(|errno| self.explain(errno))?;
        ptrace::set_signal_mask(self.tid, self.saved_mask).map_err(|errno| self.explain(errno))?;
        ptrace::set_registers(self.tid, &self.saved).map_err(|errno| self.explain(errno))?;
        self.away = false;
        self.clear_unused_end()?;
        for sent in self.held.drain(..) {
            send_again(self.pid, self.tid, sent);
        }
        Ok(())
    }
}

impl RemoteThread<'_> {
    /// Zeroes the unused end of a stack again, when no return frame there is needed any more.
    fn clear_unused_end(&self) -> Result<()> {
        if self.room.own || self.left_away {
            return Ok(());
        }
        let zeros = vec![0; (self.room.below - self.room.low) as usize];
        self.memory.write(self.room.low, &zeros)
    }
}

/// Whether a thread stands at the same instruction, on the same stack and with the same arguments.
fn is_same_place(a: &Registers, b: &Registers) -> bool {
    (a.rip, a.rsp, a.rbp, a.rdi, a.rsi) == (b.rip, b.rsp, b.rbp, b.rdi, b.rsi)
}

/// Returns the error for a thread on a stack whose bounds are unknown.
fn unknown_stack(pid: i32, tid: i32) -> Error {
    Error::NothingToBorrow {
        pid,
        reason: format!("thread {tid} stands on a stack whose bounds are not known"),
    }
}

impl Drop for RemoteThread<'_> {
    fn drop(&mut self) {
        // A failure means that the thread is gone; if it is not, the return frame brings it back.
        let _ = self.restore();
    }
}

/// Whether thread `tid`, which stands still at `pc`, is inside a restartable sequence: code that the kernel restarts if the thread leaves
/// its processor within it. The kernel recognises it by the program counter (`rseq_ip_fixup`, kernel/rseq.c), so a thread that is sent
/// elsewhere from there would finish the sequence although it was interrupted.
pub fn in_restartable_sequence(tid: i32, memory: &GuestMemory, pc: u64) -> bool {
    // `struct rseq` (include/uapi/linux/rseq.h): rseq_cs at 8; `struct rseq_cs`: start_ip at 8,
    // post_commit_offset at 16.
    let Some(rseq) = ptrace::restartable_sequences(tid) else {
        return false;
    };
    let section = memory.word(rseq.wrapping_add(8)).unwrap_or(0);
    if section == 0 {
        return false;
    }
    let word = |at: u64| memory.word(section.wrapping_add(at));
    match (word(8), word(16)) {
        (Ok(start), Ok(length)) => pc.wrapping_sub(start) < length,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
