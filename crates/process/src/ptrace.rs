//! The ptrace requests that lancet uses, as plain functions. Used by `stop::late`, `stop::thread` and others here, and
//! by most crates above.
//!
//! Signals are raw numbers and not an enum, because a guest may be sent real-time signals, and whatever was caught must
//! be handed on unchanged. All requests about a thread must come from the OS thread that seized it.

mod bounded;
mod registers;
mod request;
mod seize;
mod system_call;

pub use bounded::{Bounded, EACH, Looks};
use registers::{NT_PRSTATUS, forget, keep};
pub use registers::{Registers, registers, registers_kept};
pub use request::event_message;
pub(crate) use request::poke;
use request::{request, unheard_of};
pub use seize::seize;
pub(crate) use seize::{hear_ends, seize_within};
pub use system_call::{AtSystemCall, Side, system_call};

use crate::proc_file;
use crate::threads::thread_ids;
use nix::errno::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// How long a process that is to be ended is waited for to stop.
const STOPS: Duration = Duration::from_secs(10);
const NT_X86_XSTATE: usize = 0x202;
/// More bytes than the state of any processor has (AMX: 11 KB).
const XSTATE_ROOM: usize = 16 * 1024;

/// Whether two processes use one memory, as a process and its child do between vfork(2) and exec; true if the kernel does not tell.
pub fn share_memory(one: i32, other: i32) -> bool {
    shares_memory(one, other).unwrap_or(true)
}

/// The same; `None` = the kernel does not tell: it has no kcmp(2) (Linux 3.5 with CONFIG_KCMP), a filter forbids the call, or one of them is
/// gone.
fn shares_memory(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: kcmp(2) takes integers alone.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    (compared >= 0).then_some(compared == 0)
}

/// Whether a child may use the memory of its parent (vfork). Where the kernel does not say it of both, a thread of the parent would be waiting
/// in a system call that makes a process.
pub fn may_share_memory(parent: i32, child: i32) -> bool {
    shares_memory(parent, child).unwrap_or_else(|| makes_process(parent))
}

/// Whether a thread of a process is in a system call that makes a process, or this is not to be seen.
fn makes_process(pid: i32) -> bool {
    let makes = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    // One that has ended waits for nobody.
    let threads = thread_ids(pid).unwrap_or_default();
    threads.into_iter().any(|tid| {
        let call = match proc_file::text(format!("/proc/{pid}/task/{tid}/syscall")) {
            Ok(call) => call,
            Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
        };
        let number = call.split_ascii_whitespace().next();
        number.is_some_and(|number| makes.iter().any(|known| number.parse() == Ok(*known)))
    })
}

/// Sets what a stopped thread of ours is to report, in the place of what was asked when it was seized.
pub fn set_options(tid: i32, options: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize).map(drop)
}

/// Ends a process by SIGKILL as its tracer, for which the right to trace it suffices: the kernel kills what a thread has seized with
/// `PTRACE_O_EXITKILL` when that thread ends (`exit_ptrace`, kernel/ptrace.c). So the calling thread, which must end now, is one that was
/// begun for this. `is_it` is asked while the process stands still, when it cannot become another one; if it says no, it goes on.
///
/// # Errors
/// It cannot be seized, does not stop, or `is_it` says no.
pub fn kill(pid: i32, is_it: impl FnOnce() -> bool) -> io::Result<()> {
    seize(pid, 0)?;
    interrupt(pid)?;
    let until = Instant::now() + STOPS;
    // SAFETY: the call takes integers and, for the status, a null pointer.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) } == 0 {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if is_it() {
        return Ok(set_options(pid, libc::PTRACE_O_EXITKILL)?);
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Asks a running thread to stop.
pub fn interrupt(tid: i32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go on, with `signal` delivered (0 = none).
pub fn resume(tid: i32, signal: i32) -> Result<(), Errno> {
    forget(tid);
    request(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

/// Lets a stopped thread go on to the next start or end of a system call.
pub fn resume_to_syscall(tid: i32, signal: i32) -> Result<(), Errno> {
    forget(tid);
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize).map(drop)
}

/// Keeps a thread in a group stop there, while its events are still reported to us.
pub fn listen(tid: i32) -> Result<(), Errno> {
    forget(tid);
    request(libc::PTRACE_LISTEN, tid, 0, 0).map(drop)
}

/// Ends tracing of a stopped thread.
pub fn detach(tid: i32, signal: i32) -> Result<(), Errno> {
    forget(tid);
    request(libc::PTRACE_DETACH, tid, 0, signal as usize).map(drop)
}

/// Sets all general registers of a stopped thread at once.
pub fn set_registers(tid: i32, registers: &Registers) -> Result<(), Errno> {
    forget(tid);
    let mut vector = libc::iovec {
        iov_base: (&raw const *registers).cast_mut().cast(),
        iov_len: size_of::<Registers>(),
    };
    request(
        libc::PTRACE_SETREGSET,
        tid,
        NT_PRSTATUS,
        (&raw mut vector) as usize,
    )
    .map(drop)
}

/// The same with registers that were read of this thread and in which only integer registers were changed: they are kept as what
/// [`registers_kept`] reads.
pub(crate) fn change_registers(tid: i32, registers: &Registers) -> Result<(), Errno> {
    set_registers(tid, registers)?;
    keep(tid, registers);
    Ok(())
}

/// Reads the XSAVE area of a stopped thread: x87, SSE, AVX and what else the processor has.
pub fn extended_state(tid: i32) -> Result<Vec<u8>, Errno> {
    let mut state = vec![0u8; XSTATE_ROOM];
    let mut vector = libc::iovec {
        iov_base: state.as_mut_ptr().cast(),
        iov_len: state.len(),
    };
    request(
        libc::PTRACE_GETREGSET,
        tid,
        NT_X86_XSTATE,
        (&raw mut vector) as usize,
    )?;
    state.truncate(vector.iov_len);
    Ok(state)
}

/// Writes the XSAVE area of a stopped thread.
pub fn set_extended_state(tid: i32, state: &[u8]) -> Result<(), Errno> {
    let mut vector = libc::iovec {
        iov_base: state.as_ptr().cast_mut().cast(),
        iov_len: state.len(),
    };
    request(
        libc::PTRACE_SETREGSET,
        tid,
        NT_X86_XSTATE,
        (&raw mut vector) as usize,
    )
    .map(drop)
}

/// Returns the signal mask of a stopped thread; bit 0 is signal 1.
pub fn signal_mask(tid: i32) -> Result<u64, Errno> {
    let mut mask = 0u64;
    request(
        libc::PTRACE_GETSIGMASK,
        tid,
        size_of::<u64>(),
        (&raw mut mask) as usize,
    )?;
    Ok(mask)
}

/// Sets the signal mask of a stopped thread.
pub fn set_signal_mask(tid: i32, mask: u64) -> Result<(), Errno> {
    request(
        libc::PTRACE_SETSIGMASK,
        tid,
        size_of::<u64>(),
        (&raw const mask) as usize,
    )
    .map(drop)
}

/// Returns the kernel's record of the signal that a thread has stopped for, or of its group stop.
pub fn signal_information(tid: i32) -> Result<libc::siginfo_t, Errno> {
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let place = (&raw mut information) as usize;
    request(libc::PTRACE_GETSIGINFO, tid, 0, place)?;
    Ok(information)
}

/// Returns the bytes of a record of a signal.
#[must_use]
pub fn bytes_of(information: &libc::siginfo_t) -> [u8; size_of::<libc::siginfo_t>()] {
    // SAFETY: the array has the size of the structure, and every byte is initialised: `signal_information` has zeroed all of it, padding
    // included, before the kernel wrote it.
    unsafe { std::mem::transmute_copy(information) }
}

/// The kernel's answer to the request: `struct ptrace_rseq_configuration` (include/uapi/linux/ptrace.h).
#[repr(C)]
#[derive(Default)]
struct RseqConfiguration {
    pointer: u64,
    size: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;

/// Returns the address of a stopped thread's `struct rseq`, if it registered one (Linux 5.13).
pub fn restartable_sequences(tid: i32) -> Option<u64> {
    let mut configuration = RseqConfiguration::default();
    request(
        PTRACE_GET_RSEQ_CONFIGURATION,
        tid,
        size_of::<RseqConfiguration>(),
        (&raw mut configuration) as usize,
    )
    .ok()?;
    (configuration.pointer != 0).then_some(configuration.pointer)
}

const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;

/// Whether a stopped thread has given its system calls to a handler of the program (`prctl(PR_SET_SYSCALL_USER_DISPATCH)`). A kernel before
/// Linux 6.4 does not show it; then the result is false.
pub fn dispatches_system_calls(tid: i32) -> bool {
    // struct ptrace_sud_config (include/uapi/linux/ptrace.h): mode, address of the selector, offset and length of the code that is let through.
    let mut configuration = [0u64; 4];
    let asked = request(
        PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG,
        tid,
        size_of_val(&configuration),
        configuration.as_mut_ptr() as usize,
    );
    asked.is_ok() && configuration[0] != 0
}

const PTRACE_SECCOMP_GET_FILTER: libc::c_uint = 0x420c;

/// One instruction of classic BPF: `struct sock_filter` (include/uapi/linux/filter.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What is done, `code`: class, operation and mode of addressing (include/uapi/linux/bpf_common.h).
    pub code: u16,
    /// `jt`: how many instructions a conditional jump skips if its condition holds.
    pub yes: u8,
    /// `jf`: how many it skips if its condition does not hold.
    pub no: u8,
    /// `k`: a constant, an offset or the distance of a jump, by the operation.
    pub operand: u32,
}

/// Reads a seccomp filter of a stopped thread. Index 0 is the one that was set last; behind the first one that was set, the error is
/// ENOENT.
pub fn seccomp_filter(tid: i32, index: usize) -> Result<Vec<Instruction>, Errno> {
    let count = request(PTRACE_SECCOMP_GET_FILTER, tid, index, 0)?;
    let mut program = vec![Instruction::default(); count as usize];
    let place = program.as_mut_ptr() as usize;
    request(PTRACE_SECCOMP_GET_FILTER, tid, index, place)?;
    Ok(program)
}

/// What `waitpid` reported of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The thread has nothing to report: it runs, or stands as it did.
    Nothing,
    /// It ended with this exit code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It stopped because we interrupted it (`SIGTRAP`), or in a group stop by the given signal.
    Interrupted(i32),
    /// It stopped at the start or end of a system call.
    Syscall,
    /// It stopped at a `PTRACE_EVENT_*`.
    Special(i32),
    /// It stopped before this signal is delivered to it.
    Signal(i32),
}

/// Reports the next event of one thread (or with -1 of any) without waiting. If a thread stands because of us, or before a signal, and its
/// program would see EINTR, this also makes the thread make its system call again ([`crate::interrupted`]): every stop is reported by this
/// function, so none can be forgotten.
///
/// A `PTRACE_EVENT_*` that was [`put_back`] is reported again, unless something newer has happened: only SIGKILL takes a thread from such
/// an event without us.
pub fn poll(tid: i32) -> Result<(i32, Event), Errno> {
    forget(tid);
    let mut status = 0;
    // SAFETY: `status` is a live integer of this frame, to which the call writes.
    let found = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
    let errno = Errno::last();
    let event = PUT_BACK.with_borrow_mut(|all| {
        let at = all.iter().position(|(of, _)| *of == tid)?;
        Some(all.swap_remove(at).1)
    });
    match (found, event) {
        (-1, _) => Err(errno),
        (0, Some(event)) => Ok((tid, Event::Special(event))),
        (0, None) => Ok((tid, Event::Nothing)),
        (found, _) => {
            let event = decode(status);
            match event {
                Event::Exited(_) | Event::Killed(_) => {
                    ENDS.with_borrow_mut(|ends| {
                        // The id may belong to another thread by now.
                        ends.retain(|(tid, _)| *tid != found);
                        if ends.len() == MOST_ENDS {
                            ends.pop_front();
                        }
                        ends.push_back((found, event));
                    });
                }
                // A group stop is left alone: SIGSTOP ends those calls with EINTR without us too.
                Event::Interrupted(libc::SIGTRAP) | Event::Signal(_) => {
                    crate::interrupted::restart_call(found);
                }
                _ => {}
            }
            Ok((found, event))
        }
    }
}

/// Returns a child or a thread of ours with an event that was not taken yet: it has ended, or stands as our tracee. The event stays
/// pending.
pub fn unheard() -> Option<i32> {
    first_unheard(libc::WNOHANG)
}

/// A child or a thread of ours with an event that was not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unheard {
    /// Its id.
    pub tid: i32,
    /// Whether it stands at the start or the end of a system call. Then it can be set going as it stands: a stop ends with that, whether
    /// it was taken or not (`ptrace_resume`, kernel/ptrace.c), and a call of wait(2) is saved.
    pub at_call: bool,
}

/// Waits until a child or a thread of ours has an event that was not taken yet, or a signal comes. The event stays pending.
pub fn next_unheard() -> Option<Unheard> {
    let told = first_told(0)?;
    // SAFETY: the kernel filled it in for a child, and these fields are then valid.
    let (tid, status) = unsafe { (told.si_pid(), told.si_status()) };
    let at_call = told.si_code == libc::CLD_TRAPPED && status == AT_CALL;
    if at_call {
        // As in `poll`: what was kept of its last stop is not true any more.
        forget(tid);
        PUT_BACK.with_borrow_mut(|all| all.retain(|(of, _)| *of != tid));
    }
    Some(Unheard { tid, at_call })
}

/// Takes the stop of a thread that stands at a system call ([`Unheard::at_call`]) and is not set going yet.
pub fn take_stop(tid: i32) {
    // SAFETY: waitpid(2) touches no memory of ours: the status pointer is null.
    unsafe { libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
}

/// The signal of a stop at a system call with `PTRACE_O_TRACESYSGOOD`.
const AT_CALL: i32 = libc::SIGTRAP | 0x80;

fn first_unheard(how: i32) -> Option<i32> {
    // SAFETY: the kernel filled it in for a child, and this field is then valid.
    first_told(how).map(|told| unsafe { told.si_pid() })
}

fn first_told(how: i32) -> Option<libc::siginfo_t> {
    unheard_of(libc::P_ALL, 0, how)
}

/// Whether this child or thread of ours has an event that was not taken yet. The event stays pending.
pub fn is_unheard(tid: i32) -> bool {
    unheard_of(libc::P_PID, tid as libc::id_t, libc::WNOHANG).is_some()
}

/// How long a thread that does not stop is waited for while others stand still. After that the stop is given up and all threads go on.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// The longest wait for one thread while no other stands still because of it. A thread in an uninterruptible wait of the kernel (state D)
/// may take longer; then the caller gives up and reports it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Waits for the next event of a thread, at most until `deadline`: then [`Event::Nothing`].
pub fn wait(tid: i32, deadline: Instant) -> Result<Event, Errno> {
    let looks = Looks::begin();
    loop {
        let (_, event) = poll(tid)?;
        if event != Event::Nothing || Instant::now() > deadline {
            return Ok(event);
        }
        looks.pause(tid);
    }
}

/// Limit of the ends that are remembered. Code that handles a thread asks for its end in the turn in which it finds the thread gone, so
/// that many threads can end in between.
const MOST_ENDS: usize = 1 << 12;

thread_local! {
    /// How threads of ours have ended, whichever call waited for them, because the kernel reports an end once. The last entry is the
    /// latest.
    static ENDS: RefCell<VecDeque<(i32, Event)>> = const { RefCell::new(VecDeque::new()) };

    /// Events that will be reported again. Only the thread of ours that traces a thread may wait for it, so each of our threads has a list
    /// of its own.
    static PUT_BACK: RefCell<Vec<(i32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Makes the next [`poll`] of thread `tid` report this event again, at which the thread stands. The kernel reports each event once; code
/// that receives one that other code must handle puts it back here, so that it is not lost: a thread at an event that is never handled
/// stands for ever.
pub fn put_back(tid: i32, event: i32) {
    PUT_BACK.with_borrow_mut(|all| {
        all.retain(|(of, _)| *of != tid);
        all.push((tid, event));
    });
}

/// Returns how a thread that was waited for has ended.
pub fn end_of(tid: i32) -> Option<Event> {
    ENDS.with_borrow(|ends| {
        let end = ends.iter().find(|(other, _)| *other == tid);
        end.map(|(_, event)| *event)
    })
}

/// Forgets how a thread has ended whose id another one has now.
fn forget_end(tid: i32) {
    ENDS.with_borrow_mut(|ends| {
        if let Some(at) = ends.iter().position(|(other, _)| *other == tid) {
            ends.remove(at);
        }
    });
}

/// `PTRACE_O_TRACESYSGOOD` marks system call stops with this bit.
const SYSCALL_MARK: i32 = 0x80;

fn decode(status: i32) -> Event {
    if libc::WIFEXITED(status) {
        return Event::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Event::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_STOP => Event::Interrupted(signal),
        0 if signal == libc::SIGTRAP | SYSCALL_MARK => Event::Syscall,
        0 => Event::Signal(signal),
        event => Event::Special(event),
    }
}

/// Converts an error of a ptrace request to one of ours. ESRCH has three meanings: there is no such thread, it is not our tracee, it does
/// not stand still (`ptrace_check_attach`, kernel/ptrace.c).
pub fn explain(pid: i32, what: &str, errno: Errno) -> crate::Error {
    match errno {
        Errno::ESRCH => crate::guest::missing_thread(pid),
        errno => crate::Error::system(
            format!("{what} of process {pid}"),
            io::Error::from_raw_os_error(errno as i32),
        ),
    }
}
