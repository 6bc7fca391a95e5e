//! A process of ours that stays traced: a program that lancet has started, and its children if they are followed. Used
//! by `lifecycle::started`, `lifecycle::processes` and others here, and by most crates above.
//!
//! As its tracer, lancet sees the program's exec, and its end while the memory still exists, whatever ends it. The price is
//! that each signal for its main thread stops there first; it is delivered at once. Other threads are not traced. If lancet
//! dies, the kernel lets the program go on.

mod child_signal;
mod daemonized;

pub use child_signal::{hold_child_signal, next_event, wait_for_any};
pub use daemonized::{Behind, go_behind};

use daemonized::Waiting;
use process::error::{Error, Result};
use process::ptrace::{self, Event, Looks};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The event at which a traced process stands, until [`Tracee::go_on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A new program has been loaded; none of it has run.
    Exec,
    /// It has made this child, which has memory of its own.
    Fork(i32),
    /// It has made this child, which uses its memory until the child's own exec.
    Vfork(i32),
    /// It is at the start or the end of a system call.
    Syscall,
    /// This signal is about to be delivered to it; reported only after [`Tracee::tell_signals`].
    Signal(i32),
    /// It is about to end; its memory is still there.
    Ending,
    /// It has ended: exit code, or 128 + signal as shells say it.
    Ended(i32),
}

/// A process whose main thread we trace, from its start or its exec until it is let go.
#[derive(Debug)]
pub struct Tracee {
    pid: i32,
    at: Option<Happening>,
    to_syscalls: bool,
    tells_signals: bool,
    /// Whether [`Tracee::stand_still`] has stopped it and it was not set going since.
    stands: bool,
}

/// A function that is called at each system call of a program on its way to its exec.
pub type OnItsWay<'a> = dyn FnMut(i32) + 'a;

/// A user that a program runs as: the ids, which are looked up before the fork.
#[derive(Clone, Debug)]
pub struct User {
    user: libc::uid_t,
    group: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl User {
    /// Looks up a user by name; `None` = there is no such user.
    ///
    /// POSIX's `id` is run for this and not the C library asked: users may be in a directory service, and a static program
    /// of glibc that loads the modules for those (NSS) is killed by them.
    pub fn named(name: &str) -> Option<Self> {
        let ids = |which: &str| -> Option<Vec<u32>> {
            let output = Command::new("id").args([which, "--", name]).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            let ids = text.split_whitespace().map(|id| id.parse().ok());
            output.status.success().then(|| ids.collect())?
        };
        let one = |which: &str| -> Option<u32> { ids(which)?.first().copied() };
        Some(User {
            user: one("-u")?,
            group: one("-g")?,
            groups: ids("-G")?,
        })
    }

    /// Becomes the user. Returns whether the kernel allowed it. It makes the system calls itself, because libc's functions
    /// would signal other threads, of which a child of fork has none.
    fn become_it(&self) -> bool {
        // SAFETY: the calls take integers and the address of the list `self.groups`, which lives through them and is only
        // read.
        unsafe {
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setgid, self.group) == 0
                && libc::syscall(libc::SYS_setuid, self.user) == 0
        }
    }
}

/// Whether lancet was started with SIGPIPE ignored, before Rust's own code ignored it.
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Notes that SIGPIPE was ignored when lancet was started; a program that it starts gets the same setting.
pub fn note_pipes_ignored() {
    PIPES_IGNORED.store(true, Ordering::Relaxed);
}

/// Whether lancet was started with SIGINT ignored, before it caught it.
static INTERRUPTS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Notes that SIGINT was ignored when lancet was started; a program that it starts gets the same setting.
pub fn note_interrupts_ignored() {
    INTERRUPTS_IGNORED.store(true, Ordering::Relaxed);
}

/// The longest time from a program's start to its first instruction, on a very busy machine.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The events that the kernel reports of a tracee.
const OPTIONS: i32 =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT;
const FOLLOW: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

impl Tracee {
    /// Starts a program that is traced from before its exec; it soon stands at [`Happening::Exec`]. With `sees` it stops at
    /// the start and the end of each system call until then, and `sees` is called with its id.
    pub fn launch(
        command: &[OsString],
        follow: bool,
        user: Option<&User>,
        sees: Option<&mut OnItsWay<'_>>,
    ) -> Result<Self> {
        let Waiting { pid, go, failure } = match daemonized::take() {
            Some(waiting) => waiting,
            None => waiting(command, user)?,
        };
        let options = OPTIONS | if follow { FOLLOW } else { 0 };
        if let Err(errno) = ptrace::seize(pid, options) {
            // SAFETY: kill(2) takes integers. `pid` is our own child that we have not waited for, so the id cannot belong
            // to another process.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return Err(ptrace::explain(pid, "tracing the program", errno));
        }
        if sees.is_some() {
            // It stops before it runs its own code again, and from then on stops at its system calls.
            ptrace::interrupt(pid).map_err(|errno| ptrace::explain(pid, "tracing", errno))?;
        }
        write_byte(&go);
        drop(go);
        let mut tracee = Tracee {
            to_syscalls: sees.is_some(),
            ..Self::child(pid)
        };
        if let Some(sees) = sees {
            while tracee.wait()? == Happening::Syscall {
                sees(pid);
                tracee.go_on(true)?;
            }
        }
        match read_errno(&failure) {
            None => Ok(tracee),
            Some(errno) => {
                // It ends, by itself or because it is killed; this collects it.
                while !matches!(tracee.wait()?, Happening::Ended(_)) {
                    tracee.go_on(false)?;
                }
                Err(not_started(command, io::Error::from_raw_os_error(errno)))
            }
        }
    }

    /// The tracee of a child of a followed process, which the kernel has put under our tracing.
    pub fn child(pid: i32) -> Self {
        Tracee {
            pid,
            at: None,
            to_syscalls: false,
            tells_signals: false,
            stands: false,
        }
    }

    /// The tracee of a process that stands at its exec and was seized just before.
    pub fn at_exec(pid: i32) -> Self {
        Tracee {
            at: Some(Happening::Exec),
            ..Self::child(pid)
        }
    }

    /// The tracee of a process whose only thread stands still for us; `kept` = lancet has started it.
    ///
    /// # Errors
    /// It was killed.
    pub fn taken_over(pid: i32, kept: bool) -> Result<Self> {
        let exit = if kept { libc::PTRACE_O_TRACEEXIT } else { 0 };
        let set = ptrace::set_options(pid, OPTIONS & !libc::PTRACE_O_TRACEEXIT | exit);
        set.map_err(|errno| ptrace::explain(pid, "tracing", errno))?;
        Ok(Tracee {
            stands: true,
            ..Self::child(pid)
        })
    }

    /// The same of a process that stands at its exec.
    ///
    /// # Errors
    /// It was killed.
    pub fn again_at_exec(pid: i32, kept: bool) -> Result<Self> {
        Self::taken_over(pid, kept)?;
        Ok(Self::at_exec(pid))
    }

    /// Makes it stand at each signal for its main thread from now on.
    pub fn tell_signals(&mut self) {
        self.tells_signals = true;
    }

    /// Its id in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Handles events that need no decision. Returns the event at which it stands, if any.
    pub fn poll(&mut self) -> Result<Option<Happening>> {
        while self.at.is_none() {
            let event = match ptrace::poll(self.pid) {
                Ok((_, event)) => event,
                // Other code that has stopped it has seen its end.
                Err(errno) => match ptrace::end_of(self.pid) {
                    Some(end) => end,
                    None => return Err(ptrace::explain(self.pid, "waiting", errno)),
                },
            };
            match event {
                Event::Nothing => return Ok(None),
                Event::Exited(code) => self.at = Some(Happening::Ended(code)),
                Event::Killed(signal) => self.at = Some(Happening::Ended(128 + signal)),
                Event::Signal(signal) if self.tells_signals => {
                    self.at = Some(Happening::Signal(signal));
                }
                Event::Signal(signal) => self.resume(signal)?,
                Event::Interrupted(libc::SIGTRAP) => self.resume(0)?,
                // It is in a group stop: it stays stopped, and its end is still reported.
                Event::Interrupted(_) => self.check(ptrace::listen(self.pid))?,
                Event::Syscall => self.at = Some(Happening::Syscall),
                Event::Special(event) => self.stand_at(event)?,
            }
        }
        Ok(self.at)
    }

    /// Returns the signals that it received while it was stopped for other work; they have been delivered.
    pub fn handed_on(&self) -> Vec<i32> {
        process::stop::handed_on(self.pid)
    }

    /// Returns how it has ended: its exit code, or the signal that killed it; `None` = it has not, or its end was not seen.
    pub fn end(&self) -> Option<std::result::Result<i32, i32>> {
        match ptrace::end_of(self.pid)? {
            Event::Exited(code) => Some(Ok(code)),
            Event::Killed(signal) => Some(Err(signal)),
            _ => None,
        }
    }

    /// Handles a ptrace event at which it stands.
    fn stand_at(&mut self, event: i32) -> Result<()> {
        let child = || ptrace::event_message(self.pid).map_or(0, |message| message as i32);
        match event {
            libc::PTRACE_EVENT_EXEC => self.at = Some(Happening::Exec),
            libc::PTRACE_EVENT_EXIT => self.at = Some(Happening::Ending),
            libc::PTRACE_EVENT_FORK => self.at = Some(Happening::Fork(child())),
            libc::PTRACE_EVENT_VFORK => self.at = Some(Happening::Vfork(child())),
            _ => self.resume(0)?,
        }
        Ok(())
    }

    /// Waits until it stands at an event, at most for a minute.
    pub fn wait(&mut self) -> Result<Happening> {
        let deadline = Instant::now() + LONGEST_START;
        let looks = Looks::begin();
        loop {
            if let Some(happening) = self.poll()? {
                return Ok(happening);
            }
            if Instant::now() > deadline {
                return Err(self.would_not_stop());
            }
            looks.pause(self.pid);
        }
    }

    fn would_not_stop(&self) -> Error {
        Error::WouldNotStop {
            pid: self.pid,
            tid: self.pid,
            place: process::stop::place(self.pid, self.pid),
        }
    }

    /// Sets it going from the event at which it stands; with `to_syscalls` it stops at each system call.
    pub fn go_on(&mut self, to_syscalls: bool) -> Result<()> {
        self.to_syscalls = to_syscalls;
        let stands = std::mem::take(&mut self.stands);
        match self.at.take() {
            None if stands => self.resume(0),
            None => Ok(()),
            ended @ Some(Happening::Ended(_)) => {
                self.at = ended;
                Ok(())
            }
            Some(Happening::Signal(signal)) => self.resume(signal),
            Some(_) => self.resume(0),
        }
    }

    /// Brings the process into an interrupt stop: where it is if it runs, or before its first instruction if it stands at
    /// its exec. There its registers can be changed and restored. If it does not stop in time it runs on.
    pub fn stand_still(&mut self) -> Result<()> {
        self.check(ptrace::interrupt(self.pid))?;
        if self.at.is_some() {
            self.check(ptrace::resume(self.pid, 0))?;
        }
        let deadline = Instant::now() + ptrace::LONGEST_WAIT;
        loop {
            match ptrace::wait(self.pid, deadline) {
                Ok(Event::Interrupted(_)) => {
                    self.stands = true;
                    return Ok(());
                }
                // The stop comes later, and `poll` sets it going from there.
                Ok(Event::Nothing) => return Err(self.would_not_stop()),
                // The signal came before the interrupt and is meant for the program that runs here next.
                Ok(Event::Signal(signal)) => self.check(ptrace::resume(self.pid, signal))?,
                Ok(Event::Special(event)) => {
                    self.stand_at(event)?;
                    return Err(Error::Gone(self.pid));
                }
                Ok(Event::Exited(_) | Event::Killed(_)) => return Err(Error::Gone(self.pid)),
                // Any stop of another kind cancels a pending interrupt (`ptrace_stop`, kernel/signal.c).
                Ok(Event::Syscall) => {
                    self.check(ptrace::interrupt(self.pid))?;
                    self.check(ptrace::resume(self.pid, 0))?;
                }
                Err(errno) => return Err(ptrace::explain(self.pid, "waiting", errno)),
            }
        }
    }

    /// Ends its tracing. It goes on alone, and so does a child if it stands at that child's fork.
    pub fn let_go(&mut self) -> Result<()> {
        let signal = match self.at {
            None if self.stands => 0,
            None => return self.check(process::stop::let_go(self.pid, self.pid)),
            Some(Happening::Ended(_)) => return Ok(()),
            Some(Happening::Signal(signal)) => signal,
            Some(Happening::Fork(child) | Happening::Vfork(child)) => {
                self.check(process::stop::let_go(child, child))?;
                0
            }
            Some(_) => 0,
        };
        (self.at, self.stands) = (None, false);
        self.check(ptrace::detach(self.pid, signal))
    }

    fn resume(&mut self, signal: i32) -> Result<()> {
        let result = if self.to_syscalls {
            ptrace::resume_to_syscall(self.pid, signal)
        } else {
            ptrace::resume(self.pid, signal)
        };
        self.check(result)
    }

    /// Checks the result of a request. A request about a process that was killed meanwhile fails; its end is reported next.
    fn check(&self, result: std::result::Result<(), nix::errno::Errno>) -> Result<()> {
        match result {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(errno) => Err(ptrace::explain(self.pid, "tracing", errno)),
        }
    }
}

fn not_started(command: &[OsString], error: io::Error) -> Error {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    Error::Start {
        program: program.to_string_lossy().into_owned(),
        error,
    }
}

/// Converts the words of a command to C strings.
fn words_of(command: &[OsString]) -> Result<Vec<CString>> {
    let words = command.iter().map(|word| CString::new(word.as_bytes()));
    let words = words.collect::<std::result::Result<Vec<_>, _>>();
    words.map_err(|_| not_started(command, io::ErrorKind::InvalidInput.into()))
}

/// Makes a child that waits to become the program.
fn waiting(command: &[OsString], user: Option<&User>) -> Result<Waiting> {
    let words = words_of(command)?;
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let ours = hold_child_signal();
    let (wait, go) = pipe()?;
    let (failure, fail) = pipe()?;
    // SAFETY: the closure runs in the child, which has one thread; `child` makes only async-signal-safe calls there, and
    // the words it points to live in this frame.
    let mut runs = || unsafe { child(&pointers, user, &ours, &[&wait, &go, &fail]) };
    // SAFETY: `child` makes async-signal-safe calls alone, on what was made before the fork.
    let forked = unsafe { process::own_proc::fork(&mut runs) };
    let pid = forked.map_err(|error| Error::system("fork", error))?;
    Ok(Waiting { pid, go, failure })
}

/// Runs in the child until it becomes the program.
///
/// # Safety
/// Called only right after fork, or in a process with one thread.
unsafe fn child(
    words: &[*const libc::c_char],
    user: Option<&User>,
    mask: &libc::sigset_t,
    [wait, go, fail]: &[&OwnedFd; 3],
) -> ! {
    let (wait, go, fail) = (wait.as_raw_fd(), go.as_raw_fd(), fail.as_raw_fd());
    // SAFETY: only async-signal-safe calls are made, on descriptors that are open in the child and on strings that were
    // made before the fork.
    unsafe {
        // The other end is closed, so that the death of lancet ends the wait below: then the program runs alone.
        libc::close(go);
        let mut byte = 0u8;
        while libc::read(wait, (&raw mut byte).cast(), 1) == -1
            && *libc::__errno_location() == libc::EINTR
        {}
        // Rust ignores SIGPIPE for its own programs; the guest must get the setting that lancet was started with.
        let given = match PIPES_IGNORED.load(Ordering::Relaxed) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        libc::signal(libc::SIGPIPE, given);
        if INTERRUPTS_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGINT, libc::SIG_IGN);
        }
        libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        process::descriptors::restore_limit();
        if user.is_none_or(User::become_it) {
            libc::execvp(words[0], words.as_ptr());
        }
        let errno = *libc::__errno_location();
        libc::write(fail, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that pipe2(2) writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::system("pipe", io::Error::last_os_error()));
    }
    // SAFETY: pipe2(2) has just made both descriptors, and no other value owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn write_byte(to: &OwnedFd) {
    // SAFETY: the buffer is one byte of a constant, which is only read.
    unsafe { libc::write(to.as_raw_fd(), b"!".as_ptr().cast(), 1) };
}

/// Reads the error that the child wrote before it gave up; `None` if its exec closed the pipe.
fn read_errno(from: &OwnedFd) -> Option<i32> {
    let mut errno = 0i32;
    // SAFETY: `errno` is a live integer, and the length is its size.
    let count = unsafe { libc::read(from.as_raw_fd(), (&raw mut errno).cast(), size_of::<i32>()) };
    (count == size_of::<i32>() as isize).then_some(errno)
}

#[cfg(test)]
mod tests;
