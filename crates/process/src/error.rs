//! What can go wrong with somebody else's process, in plain words.

use std::{fmt, io};

/// Why a guest could not be opened, stopped or used. Each names the process and the reason; what to
/// do about it is added by the command line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such process, or it ended.
    #[error("there is no process {0}")]
    NoSuchProcess(i32),
    /// It ended while we were at work.
    #[error("process {0} ended")]
    Gone(i32),
    /// It runs another program now.
    #[error("process {0} runs another program now (exec); what the last one held is not known")]
    Replaced(i32),
    /// A zombie: ended, not yet collected by its parent.
    #[error("process {0} has ended and only waits for its parent to collect it (zombie)")]
    Zombie(i32),
    /// Stopped by a signal or by Ctrl-Z.
    #[error("process {0} is stopped (SIGSTOP, Ctrl-Z or a cgroup freezer)")]
    Stopped(i32),
    /// The kernel says of a thread that it does not stand still, or is not ours, and yet it lives.
    #[error("a thread of process {0} could not be held: it lives, but did not stand still for us")]
    Stirred(i32),
    /// Another tracer holds it.
    #[error("process {pid} is already traced by process {tracer}{name}")]
    Traced {
        /// The guest.
        pid: i32,
        /// Who traces it.
        tracer: i32,
        /// ` (name)` of the tracer where known.
        name: String,
    },
    /// The kernel does not let us trace it.
    #[error("the kernel does not allow us to trace process {pid}{reason}")]
    NotAllowed {
        /// The guest.
        pid: i32,
        /// What stands in the way.
        reason: Denial,
    },
    /// A kernel thread, or ourselves.
    #[error("process {pid} cannot be opened: {reason}")]
    NotAGuest {
        /// The guest.
        pid: i32,
        /// Why.
        reason: &'static str,
    },
    /// A thread did not stop in time.
    #[error(
        "thread {tid} of process {pid} does not stop: it is in an uninterruptible wait in the kernel{place}"
    )]
    WouldNotStop {
        /// The guest.
        pid: i32,
        /// The thread.
        tid: i32,
        /// ` (wchan)` where known.
        place: String,
    },
    /// A thread of a program we started stands at an event that comes before the stop.
    #[error("thread {tid} stands at ptrace event {event}")]
    AtEvent {
        /// The thread.
        tid: i32,
        /// `PTRACE_EVENT_*`.
        event: i32,
    },
    /// No thread had room on its stack, or none could be borrowed.
    #[error("no thread of process {pid} can be borrowed: {reason}")]
    NothingToBorrow {
        /// The guest.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// A system call made in the guest failed.
    #[error("{call} in process {pid} failed: {errno}")]
    Remote {
        /// The guest.
        pid: i32,
        /// Name of the call.
        call: &'static str,
        /// What the kernel said.
        errno: nix::errno::Errno,
    },
    /// The borrowed thread hit a fault in code we called; it was put back where it was.
    #[error(
        "a call into process {pid} was broken off by signal {signal} at {address:#x}; the thread was put back where it was"
    )]
    RemoteFault {
        /// The guest.
        pid: i32,
        /// The signal's number.
        signal: i32,
        /// The instruction.
        address: u64,
    },
    /// A call into the guest did not come back in time.
    #[error(
        "a call into process {pid} did not return in time ({place}); the thread was put back where it was"
    )]
    RemoteTimeout {
        /// The guest.
        pid: i32,
        /// Where the thread was then.
        place: String,
    },
    /// The guest's memory could not be read or written.
    #[error("memory of process {pid} at {at:#x}: {error}")]
    Memory {
        /// The guest.
        pid: i32,
        /// Where.
        at: u64,
        /// Why.
        error: io::Error,
    },
    /// A seccomp filter would punish a call we need.
    #[error("process {pid} is under seccomp: {reason}")]
    Seccomp {
        /// The guest.
        pid: i32,
        /// What about it.
        reason: String,
    },
    /// Another lancet is inside.
    #[error("process {pid} is already opened by another lancet{owner}")]
    Occupied {
        /// The guest.
        pid: i32,
        /// ` (process N)` where known.
        owner: String,
    },
    /// The agent did not answer.
    #[error("the agent in process {pid} did not answer within {waited_ms} ms: {reason}")]
    NoAnswer {
        /// The guest.
        pid: i32,
        /// How long.
        waited_ms: u64,
        /// What it was waiting for.
        reason: String,
    },
    /// The agent has left by itself.
    #[error("the agent left process {pid} by itself: {why}")]
    Left {
        /// The guest.
        pid: i32,
        /// Why.
        why: &'static str,
    },
    /// The agent said no.
    #[error("the agent in process {pid} could not {what}: {reason}")]
    Refused {
        /// The guest.
        pid: i32,
        /// What it was asked.
        what: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A hook without which no other may be set.
    #[error("process {pid}: {function} cannot be hooked: {reason}")]
    Hook {
        /// The guest.
        pid: i32,
        /// The function.
        function: String,
        /// Why.
        reason: String,
    },
    /// There is no Ruby we can read.
    #[error("process {pid} is not a Ruby lancet can read: {reason}")]
    NotARuby {
        /// The guest.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// A Ruby whose own faults would crash it.
    #[error("process {pid} is not opened: {reason}")]
    BrokenRuby {
        /// The guest.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// Ractors on a Ruby that does not bear hooks with them.
    #[error(
        "process {pid} runs several Ractors, and Ruby {version} crashes or loses births when they are watched (Ruby bugs 18464, 19112)"
    )]
    Ractors {
        /// The guest.
        pid: i32,
        /// Its Ruby.
        version: String,
    },
    /// Its program files could not be read.
    #[error("process {pid}: {error}")]
    Elf {
        /// The guest.
        pid: i32,
        /// Why.
        error: crate::elf::Error,
    },
    /// The agent's file is not what we embedded.
    #[error("the agent image is damaged: {0}")]
    Image(&'static str),
    /// The program could not be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A system call of ours failed.
    #[error("{what}: {error}")]
    System {
        /// What we were doing.
        what: String,
        /// Why.
        error: io::Error,
    },
}

/// What stands in the way of tracing a process; ptrace(2), "Ptrace access mode checking". As text it follows "the kernel
/// does not allow us to trace process 42".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The reason was not looked for.
    Unknown,
    /// It belongs to another user, and we lack CAP_SYS_PTRACE.
    OtherUser {
        /// Its real user.
        owner: u32,
        /// Our real user.
        us: u32,
    },
    /// The security module Yama forbids it: the value of `kernel.yama.ptrace_scope`, 1 to 3.
    PtraceScope(u8),
    /// We are root and lack CAP_SYS_PTRACE, or a security module forbids it.
    NoCapability,
    /// The kernel keeps its memory from its own user: it changed its user, or its program file is not readable for us.
    NotDumpable,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Denial::Unknown => return Ok(()),
            Denial::OtherUser { owner, us } => {
                return write!(
                    f,
                    ": it belongs to user {owner}, we are user {us} without CAP_SYS_PTRACE"
                );
            }
            Denial::PtraceScope(scope) => {
                let who = match scope {
                    1 => "only a parent or root may trace",
                    2 => "only root may trace",
                    _ => "nobody may trace until the next boot",
                };
                return write!(f, ": kernel.yama.ptrace_scope is {scope}, so {who}");
            }
            Denial::NoCapability => {
                "we are root without CAP_SYS_PTRACE (a container?), or a security module forbids it"
            }
            Denial::NotDumpable => {
                "it is not dumpable (it changed its user, or its program file is not readable for us)"
            }
        };
        write!(f, ": {reason}")
    }
}

impl Error {
    /// The process that it is about, if it is about one.
    pub fn pid(&self) -> Option<i32> {
        Some(match self {
            Error::NoSuchProcess(pid)
            | Error::Gone(pid)
            | Error::Replaced(pid)
            | Error::Zombie(pid)
            | Error::Stopped(pid)
            | Error::Stirred(pid)
            | Error::Traced { pid, .. }
            | Error::NotAllowed { pid, .. }
            | Error::NotAGuest { pid, .. }
            | Error::WouldNotStop { pid, .. }
            | Error::NothingToBorrow { pid, .. }
            | Error::Remote { pid, .. }
            | Error::RemoteFault { pid, .. }
            | Error::RemoteTimeout { pid, .. }
            | Error::Memory { pid, .. }
            | Error::Seccomp { pid, .. }
            | Error::Occupied { pid, .. }
            | Error::NoAnswer { pid, .. }
            | Error::Left { pid, .. }
            | Error::Refused { pid, .. }
            | Error::Hook { pid, .. }
            | Error::NotARuby { pid, .. }
            | Error::BrokenRuby { pid, .. }
            | Error::Ractors { pid, .. }
            | Error::Elf { pid, .. } => *pid,
            Error::AtEvent { .. }
            | Error::Image(_)
            | Error::Start { .. }
            | Error::System { .. } => return None,
        })
    }

    /// Whether trying again in a moment may help: a thread stands badly, or another lancet looks in.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::NothingToBorrow { .. } | Error::WouldNotStop { .. } | Error::Stirred(_) => true,
            Error::Traced { name, .. } => name.contains("lancet"),
            _ => false,
        }
    }

    /// A file of `/proc/PID` that could not be read.
    pub fn of_proc(pid: i32, file: &str, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Error::Gone(pid),
            _ => Error::system(format!("/proc/{pid}/{file}"), error),
        }
    }

    /// A failed call of ours, with what it was for.
    pub fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        Error::System {
            what: what.into(),
            error: error.into(),
        }
    }
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
