//! A process of ours that stays traced: a program we started, and its children if they are followed.
//!
//! Staying its tracer is what lets us see the program's exec and its end, memory still whole, whatever
//! ends it. The price is that each signal for its main thread stops there first; it is handed on at
//! once. Other threads are not traced. If we die, the kernel lets it go on.

mod behind;

pub use behind::{Behind, go_behind};

use behind::Waiting;
use process::error::{Error, Result};
use process::ptrace::{self, Event};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a traced process stands at, until [`Tracee::go_on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A new program has been loaded; none of it has run.
    Exec,
    /// It made this child, with memory of its own.
    Fork(i32),
    /// It made this child, which uses its memory until its own exec.
    Vfork(i32),
    /// It is at the start or the end of a system call.
    Syscall,
    /// This signal is about to be delivered to it; told only if that was asked for.
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
    /// Whether [`Tracee::stand_still`] has had it stand, and nobody has set it going since.
    stands: bool,
}

/// What sees each system call of a program on its way to its exec.
pub type OnItsWay<'a> = dyn FnMut(i32) + 'a;

/// A user that a program runs as: the ids, looked up before the fork.
#[derive(Clone, Debug)]
pub struct User {
    user: libc::uid_t,
    group: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl User {
    /// By name; `None` = there is no such user.
    ///
    /// POSIX's `id` is asked, and not the C library: users may be in a directory service, and a static program of glibc
    /// that loads the modules for those (NSS) is killed by them.
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

    /// Becomes the user; whether the kernel let us. System calls themselves: libc's functions would speak to other threads,
    /// which a child of fork has none of.
    fn become_it(&self) -> bool {
        // SAFETY: numbers, and a list that lives through the call.
        unsafe {
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setgid, self.group) == 0
                && libc::syscall(libc::SYS_setuid, self.user) == 0
        }
    }
}

/// Whether lancet was started with SIGPIPE ignored, before Rust's own code ignored it.
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Notes that SIGPIPE was ignored when lancet was started: a program that it starts finds it so.
pub fn note_pipes_ignored() {
    PIPES_IGNORED.store(true, Ordering::Relaxed);
}

/// The longest that a program takes from its start to its first instruction, on a machine that is very busy.
const LONGEST_START: Duration = Duration::from_secs(60);
/// The time between two looks at a program that starts.
const LOOK: Duration = Duration::from_micros(20);

/// What we want to be told of.
const OPTIONS: i32 =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT;
const FOLLOW: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

impl Tracee {
    /// Starts a program, traced from before its exec. It stands at [`Happening::Exec`] soon. With `sees` it stops at the
    /// start and the end of each system call until then, for which `sees` is called with its id.
    pub fn launch(
        command: &[OsString],
        follow: bool,
        user: Option<&User>,
        sees: Option<&mut OnItsWay<'_>>,
    ) -> Result<Self> {
        let Waiting { pid, go, failure } = match behind::take() {
            Some(waiting) => waiting,
            None => waiting(command, user)?,
        };
        let options = OPTIONS | if follow { FOLLOW } else { 0 };
        if let Err(errno) = ptrace::seize(pid, options) {
            // SAFETY: our own child, not yet anybody's program.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return Err(ptrace::explain(pid, "tracing the program", errno));
        }
        if sees.is_some() {
            // It stops before it runs code of its own again, and from there stops at its system calls.
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
                // It ends, by itself or because somebody kills it; collect it.
                while !matches!(tracee.wait()?, Happening::Ended(_)) {
                    tracee.go_on(false)?;
                }
                Err(not_started(command, io::Error::from_raw_os_error(errno)))
            }
        }
    }

    /// The child a followed process made, which the kernel has put under our tracing.
    pub fn child(pid: i32) -> Self {
        Tracee {
            pid,
            at: None,
            to_syscalls: false,
            tells_signals: false,
            stands: false,
        }
    }

    /// A process that stands at its exec, seized by us as it went there.
    pub fn at_exec(pid: i32) -> Self {
        Tracee {
            at: Some(Happening::Exec),
            ..Self::child(pid)
        }
    }

    /// From now on it stands at each signal for its main thread.
    pub fn tell_signals(&mut self) {
        self.tells_signals = true;
    }

    /// Its id in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Hands on what needs no decision; what it stands at, if anything.
    pub fn poll(&mut self) -> Result<Option<Happening>> {
        while self.at.is_none() {
            let event = match ptrace::poll(self.pid) {
                Ok((_, event)) => event,
                // Somebody who stopped it saw its end.
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
                // A group stop: it stays, and we hear of its end.
                Event::Interrupted(_) => self.check(ptrace::listen(self.pid))?,
                Event::Syscall => self.at = Some(Happening::Syscall),
                Event::Special(event) => self.stand_at(event)?,
            }
        }
        Ok(self.at)
    }

    /// Signals that it got while it was being stopped for other work: they are delivered already.
    pub fn handed_on(&self) -> Vec<i32> {
        process::stop::handed_on(self.pid)
    }

    /// How it has ended: its exit code, or the signal that killed it; `None` = it has not, or nobody saw.
    pub fn end(&self) -> Option<std::result::Result<i32, i32>> {
        match ptrace::end_of(self.pid)? {
            Event::Exited(code) => Some(Ok(code)),
            Event::Killed(signal) => Some(Err(signal)),
            _ => None,
        }
    }

    /// Notes that it stands at a ptrace event.
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

    /// Waits until it stands at something, at most for a minute.
    pub fn wait(&mut self) -> Result<Happening> {
        let deadline = Instant::now() + LONGEST_START;
        loop {
            if let Some(happening) = self.poll()? {
                return Ok(happening);
            }
            if Instant::now() > deadline {
                return Err(self.would_not_stop());
            }
            std::thread::sleep(LOOK);
        }
    }

    fn would_not_stop(&self) -> Error {
        Error::WouldNotStop {
            pid: self.pid,
            tid: self.pid,
            place: process::stop::place(self.pid, self.pid),
        }
    }

    /// Lets it go on from what it stands at; with `to_syscalls` it stops at each of them.
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

    /// Has a process stand in an interrupt stop: one that runs, where it is; one that stands at its exec, before its first
    /// instruction. There its registers can be changed and put back. One that does not come there in time runs on.
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
                // Its stop comes later, and `poll` lets it go on from there.
                Ok(Event::Nothing) => return Err(self.would_not_stop()),
                // It came before the interrupt and is for whatever program runs here next.
                Ok(Event::Signal(signal)) => self.check(ptrace::resume(self.pid, signal))?,
                Ok(Event::Special(event)) => {
                    self.stand_at(event)?;
                    return Err(Error::Gone(self.pid));
                }
                Ok(Event::Exited(_) | Event::Killed(_)) => return Err(Error::Gone(self.pid)),
                // Any stop of another kind takes back an interrupt that is pending (`ptrace_stop`, kernel/signal.c).
                Ok(Event::Syscall) => {
                    self.check(ptrace::interrupt(self.pid))?;
                    self.check(ptrace::resume(self.pid, 0))?;
                }
                Err(errno) => return Err(ptrace::explain(self.pid, "waiting", errno)),
            }
        }
    }

    /// Ends its tracing; it goes on alone, and so does a child at whose making it stands.
    pub fn let_go(&mut self) -> Result<()> {
        let signal = match self.at {
            None if self.stands => 0,
            None => return self.check(process::stop::let_go(self.pid)),
            Some(Happening::Ended(_)) => return Ok(()),
            Some(Happening::Signal(signal)) => signal,
            Some(Happening::Fork(child) | Happening::Vfork(child)) => {
                self.check(process::stop::let_go(child))?;
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

    /// A request about a process that was killed meanwhile fails; what it ended of comes next.
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

/// The words of a command as the kernel takes them.
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
    // SAFETY: it runs in the child, where it makes only async-signal-safe calls.
    let mut runs = || unsafe { child(&pointers, user, &ours, &[&wait, &go, &fail]) };
    // SAFETY: `child` makes async-signal-safe calls alone, on what was made before the fork.
    let forked = unsafe { process::own_proc::fork(&mut runs) };
    let pid = forked.map_err(|error| Error::system("fork", error))?;
    Ok(Waiting { pid, go, failure })
}

/// In the child, until it is the program.
///
/// # Safety
/// Only right after fork, or in a process of one thread.
unsafe fn child(
    words: &[*const libc::c_char],
    user: Option<&User>,
    mask: &libc::sigset_t,
    [wait, go, fail]: &[&OwnedFd; 3],
) -> ! {
    let (wait, go, fail) = (wait.as_raw_fd(), go.as_raw_fd(), fail.as_raw_fd());
    // SAFETY: async-signal-safe calls on descriptors and strings made before the fork.
    unsafe {
        // So that our death ends the wait below: then the program runs alone.
        libc::close(go);
        let mut byte = 0u8;
        while libc::read(wait, (&raw mut byte).cast(), 1) == -1
            && *libc::__errno_location() == libc::EINTR
        {}
        // Rust ignores it for its own programs; the guest must find it as we were given it.
        let given = match PIPES_IGNORED.load(Ordering::Relaxed) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        libc::signal(libc::SIGPIPE, given);
        libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        if user.is_none_or(User::become_it) {
            libc::execvp(words[0], words.as_ptr());
        }
        let errno = *libc::__errno_location();
        libc::write(fail, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}

fn child_signal() -> libc::sigset_t {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// Blocks the signal by which the kernel tells of stops, so that it can be waited for; the mask there
/// was. Before any other thread of ours is made, which must not take it either.
fn hold_child_signal() -> libc::sigset_t {
    let set = child_signal();
    // SAFETY: two live sets.
    unsafe {
        let mut before = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        before
    }
}

/// Waits at most so long until something happens to any tracee; a signal to us ends it too.
pub fn wait_for_any(most: Duration) {
    let set = child_signal();
    let time = libc::timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    // SAFETY: live set and time; nobody wants the details.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::system("pipe", io::Error::last_os_error()));
    }
    // SAFETY: the kernel just gave them to us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn write_byte(to: &OwnedFd) {
    // SAFETY: one byte of a constant.
    unsafe { libc::write(to.as_raw_fd(), b"!".as_ptr().cast(), 1) };
}

/// What the child wrote before it gave up; `None` when its exec closed the pipe.
fn read_errno(from: &OwnedFd) -> Option<i32> {
    let mut errno = 0i32;
    // SAFETY: room for the integer.
    let count = unsafe { libc::read(from.as_raw_fd(), (&raw mut errno).cast(), size_of::<i32>()) };
    (count == size_of::<i32>() as isize).then_some(errno)
}

#[cfg(test)]
mod tests;
