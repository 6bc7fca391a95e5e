//! What can go wrong with a process that is opened. One enum for all crates that work on a process. Used by `denial`,
//! `guest` and others here, and by most crates above.

mod afterwards;

pub use afterwards::Afterwards;

use crate::descriptors::is_shortage;
use crate::proc_file;
use crate::threads::living_thread;
use std::{fmt, io};
use vm::Language;

/// Why a guest could not be opened, stopped or used. Each names the process and the reason; what to
/// do about it is added by the command line.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "`pid` is the guest; other fields without a text are named as in the message"
)]
pub enum Error {
    /// There is no such process, or it ended.
    #[error("there is no process {0}")]
    NoSuchProcess(i32),
    /// It ended while lancet worked on it.
    #[error("process {0} ended")]
    Gone(i32),
    /// It runs another program now.
    #[error("process {0} runs another program now (exec); what the last one held is not known")]
    Replaced(i32),
    /// It ran another program each time when it was opened.
    #[error(
        "process {0} runs one program after the other (exec), and none long enough to be opened"
    )]
    Restless(i32),
    /// It is a zombie: it has ended, and its parent has not waited for it yet.
    #[error("process {0} has ended and only waits for its parent to collect it (zombie)")]
    Zombie(i32),
    /// It was stopped by a signal, as Ctrl-Z sends one.
    #[error("process {0} is stopped (SIGSTOP, Ctrl-Z or a cgroup freezer)")]
    Stopped(i32),
    /// ptrace says that a thread is not stopped, or not traced by us, and yet the thread lives.
    #[error("a thread of process {0} could not be held: it lives, but did not stand still for us")]
    Stirred(i32),
    /// A thread that made a call for us has ended in it, and others go on. The call may be the reason, so it is not made again by itself.
    #[error("thread {tid} of process {pid} ended while lancet used it; the process goes on")]
    ThreadEnded { pid: i32, tid: i32 },
    /// Another tracer is attached to it.
    #[error("process {pid} is already traced by process {tracer}{}", in_brackets(name.as_deref()))]
    Traced {
        pid: i32,
        tracer: i32,
        /// Name of the tracer's main thread (`comm`); `None` if it could not be read.
        name: Option<String>,
    },
    /// The kernel does not allow lancet to trace it.
    #[error("the kernel does not allow us to trace process {pid}{reason}")]
    NotAllowed { pid: i32, reason: Denial },
    /// It is a kernel thread, or lancet itself.
    #[error("process {pid} cannot be opened: {reason}")]
    NotAGuest { pid: i32, reason: &'static str },
    /// A thread did not stop in time.
    #[error(
        "thread {tid} of process {pid} does not stop: it is in an uninterruptible wait in the kernel{place}"
    )]
    WouldNotStop {
        pid: i32,
        tid: i32,
        /// ` (wchan)` where known.
        place: String,
    },
    /// A thread of a program we started stands at a `PTRACE_EVENT_*`, which comes before the stop. The next
    /// [`poll`](crate::ptrace::poll) of it, which its tracer makes, tells which.
    #[error("thread {tid} stands at a ptrace event")]
    AtEvent { tid: i32 },
    /// No thread could make a remote call: none had room on its stack, or none stood where that is possible.
    #[error("no thread of process {pid} can be borrowed: {reason}")]
    NothingToBorrow { pid: i32, reason: String },
    /// A system call made in the guest failed.
    #[error("{call} in process {pid} failed: {errno}")]
    Remote {
        pid: i32,
        call: &'static str,
        errno: nix::errno::Errno,
    },
    /// A remote call was ended by a signal.
    #[error(
        "a call into process {pid} was broken off by signal {signal} at {address:#x}; {thread}"
    )]
    RemoteFault {
        pid: i32,
        signal: i32,
        address: u64,
        /// What has become of the thread.
        thread: Afterwards,
    },
    /// A remote call did not return in time.
    #[error("a call into process {pid} did not return in time ({place}); {thread}")]
    RemoteTimeout {
        pid: i32,
        /// Where the thread stood when the time was over.
        place: String,
        /// What has become of the thread.
        thread: Afterwards,
    },
    /// The guest's memory could not be read or written.
    #[error("memory of process {pid} at {at:#x}: {error}")]
    Memory { pid: i32, at: u64, error: io::Error },
    /// The guest's control group has too little room for what we would map.
    #[error(
        "the control group of process {pid} has {left_mib} MiB left, too little for the records of its {threads} threads"
    )]
    NoRoom {
        pid: i32,
        /// MiB up to its limit.
        left_mib: u64,
        /// How many threads the guest has.
        threads: u64,
    },
    /// Pages that the guest may not write cannot be written by us either.
    #[error(
        "code of process {0} cannot be changed: the kernel was started with proc_mem.force_override=never"
    )]
    WriteProtected(i32),
    /// A seccomp filter forbids a system call that lancet needs.
    #[error("process {pid} is under seccomp: {reason}")]
    Seccomp { pid: i32, reason: String },
    /// A seccomp filter may forbid a system call that lancet needs, and the kernel does not let us read it.
    #[error(
        "process {pid} is under seccomp: {whose} could kill it for a call of ours, and only root on the host may read it"
    )]
    SeccompUnread {
        pid: i32,
        /// Whose filter it is, in words.
        whose: String,
    },
    /// Another lancet has this process open.
    #[error("process {pid} is already opened by another lancet{owner}")]
    Occupied {
        pid: i32,
        /// ` (process N)` where known.
        owner: String,
    },
    /// The agent did not answer.
    #[error("the agent in process {pid} did not answer within {waited_ms} ms: {reason}")]
    NoAnswer {
        pid: i32,
        waited_ms: u64,
        /// What the agent or its thread was waiting for.
        reason: String,
    },
    /// The agent has become quiet by itself.
    #[error("the agent left process {pid} by itself: {why}")]
    Left { pid: i32, why: &'static str },
    /// The agent refused a request.
    #[error("the agent in process {pid} could not {what}: {reason}")]
    Refused {
        pid: i32,
        /// What was requested, as a verb with its object.
        what: &'static str,
        reason: &'static str,
    },
    /// Its VM is not entered, because what must be known of it to do so safely is not known.
    #[error("the VM of process {pid} is not entered: {reason}")]
    NotEntered { pid: i32, reason: String },
    /// The kernel refused a copy of it.
    #[error("no copy of process {pid} can be made to read its heap from: {reason}")]
    NoCopy { pid: i32, reason: String },
    /// Its VM could not compact its heap in a copy of it.
    #[error("process {pid}: what GC.compact would give back is not known: {reason}")]
    NotCompacted { pid: i32, reason: String },
    /// The allocator of a copy of it could not be asked.
    #[error("process {pid}: what its allocator says is not known: {reason}")]
    NotAsked { pid: i32, reason: String },
    /// A copy of it might need more memory than its control group has left, and the kernel end one of the two.
    #[error(
        "no copy of process {pid} is made: its memory limit leaves {} MiB, and while its heap is read the process and its copy may need {} MiB more than the process alone",
        left >> 20,
        most >> 20
    )]
    NoRoomForCopy { pid: i32, left: u64, most: u64 },
    /// The same where the process would be ended with its copy.
    #[error(
        "no copy of process {pid} is made: its memory limit leaves {} MiB, of which {} MiB may be needed while its heap is read, and its control group is one that the \
         kernel ends as a whole (memory.oom.group), the process with its copy",
        left >> 20,
        most >> 20
    )]
    EndsWithCopy { pid: i32, left: u64, most: u64 },
    /// Its control group is that of another container.
    #[error(
        "no copy of process {pid} is made: its memory limit cannot be seen from here, because its control group is in another container or namespace"
    )]
    LimitHidden { pid: i32 },
    /// A hook could not be set without which no other may be.
    #[error("process {pid}: {function} cannot be hooked: {reason}")]
    Hook {
        pid: i32,
        function: String,
        reason: String,
    },
    /// The process runs no VM whose objects lancet can read.
    #[error("the heap of process {pid} cannot be read: {reason}")]
    NoHeap { pid: i32, reason: String },
    /// The process runs no VM of this language that lancet can read.
    #[error("process {pid} is not a {language} lancet can read: {reason}")]
    UnreadableVm {
        pid: i32,
        language: Language,
        reason: String,
    },
    /// This VM has a bug that would crash it.
    #[error("process {pid} is not opened: {reason}")]
    BrokenVm {
        pid: i32,
        language: Language,
        reason: String,
    },
    /// The process runs Ractors, and births cannot be watched beside them.
    #[error("process {pid} runs several Ractors, and {language} {version} {why}")]
    Ractors {
        pid: i32,
        language: Language,
        /// The version of its VM.
        version: String,
        /// What this VM does that births cannot be watched.
        why: &'static str,
    },
    /// Its program files could not be read.
    #[error("process {pid}: {error}")]
    Elf {
        pid: i32,
        error: crate::elf::ElfError,
    },
    /// The embedded file of the agent is not as it should be.
    #[error("the agent image is damaged: {0}")]
    Image(&'static str),
    /// The program could not be started.
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: io::Error },
    /// A system call of lancet's own failed.
    #[error("{what}: {error}")]
    System {
        /// What lancet was doing.
        what: String,
        error: io::Error,
    },
}

/// A security module with a policy (Documentation/admin-guide/LSM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// AppArmor, and lancet runs under a profile.
    AppArmorOfOurs,
    /// AppArmor, and the process runs under a profile.
    AppArmorOfIts,
    /// SELinux, which enforces its policy.
    SeLinux,
    /// Another one, or one that cannot be asked.
    Unknown,
}

/// What the kernel has refused us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// To read the memory of the process, by its file and by a call.
    Memory,
    /// To become the tracer of one of its threads.
    Seize,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tried::Memory => "opening /proc/PID/mem and process_vm_readv were both",
            Tried::Seize => "PTRACE_SEIZE was",
        })
    }
}

/// What stands in the way of tracing a process; ptrace(2), "Ptrace access mode checking". As text it follows "the
/// kernel does not allow us to trace process 42".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It belongs to another user, and we lack CAP_SYS_PTRACE.
    OtherUser {
        /// Id of the process's real user.
        owner: u32,
        /// Id of the real user that lancet runs as.
        us: u32,
    },
    /// The security module Yama forbids it: the value of `kernel.yama.ptrace_scope`, 1 to 3.
    PtraceScope(u8),
    /// We are root and lack CAP_SYS_PTRACE.
    NoCapability,
    /// We have CAP_SYS_PTRACE, but in another user namespace than the process's (user_namespaces(7)).
    OtherNamespace,
    /// Nothing else that can be examined forbids it, so a security module with a policy does.
    SecurityModule(Module, Tried),
    /// A seccomp filter that lancet itself runs under.
    OwnFilter,
    /// It is ours and has capabilities that we lack.
    MoreCapabilities,
    /// The kernel keeps its memory from its own user: it changed its user, or its program file is not readable for us.
    NotDumpable,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
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
            Denial::NoCapability => "we are root without CAP_SYS_PTRACE (a container?)",
            Denial::OtherNamespace => {
                "it lives in another user namespace than we, and our rights do not hold there"
            }
            Denial::SecurityModule(Module::AppArmorOfOurs, _) => {
                "AppArmor forbids it: lancet runs under a profile (/proc/self/attr/current)"
            }
            Denial::SecurityModule(Module::AppArmorOfIts, _) => {
                "AppArmor forbids it: the process runs under a profile (its attr/current in /proc)"
            }
            Denial::SecurityModule(Module::SeLinux, _) => {
                "nothing else does, and SELinux is enforcing, so its policy forbids it"
            }
            Denial::SecurityModule(Module::Unknown, tried) => {
                return write!(
                    f,
                    ": we have CAP_SYS_PTRACE, and yet {tried} refused, so a security module forbids it (/sys/kernel/security/lsm lists them)"
                );
            }
            Denial::OwnFilter => {
                "lancet itself runs under a seccomp filter that forbids ptrace (a container's default profile?)"
            }
            Denial::MoreCapabilities => "it has capabilities that we lack (CapPrm in its status)",
            Denial::NotDumpable => {
                "it is not dumpable (it changed its user, or its program file is not readable for us)"
            }
        };
        write!(f, ": {reason}")
    }
}

/// ` (name)`, or nothing.
fn in_brackets(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" ({name})"))
}

impl Error {
    /// The process that it is about, if it is about one.
    pub fn pid(&self) -> Option<i32> {
        Some(match self {
            Error::NoSuchProcess(pid)
            | Error::Gone(pid)
            | Error::Replaced(pid)
            | Error::Restless(pid)
            | Error::Zombie(pid)
            | Error::Stopped(pid)
            | Error::Stirred(pid)
            | Error::WriteProtected(pid)
            | Error::NoRoom { pid, .. }
            | Error::Traced { pid, .. }
            | Error::NotAllowed { pid, .. }
            | Error::NotAGuest { pid, .. }
            | Error::WouldNotStop { pid, .. }
            | Error::NothingToBorrow { pid, .. }
            | Error::ThreadEnded { pid, .. }
            | Error::Remote { pid, .. }
            | Error::RemoteFault { pid, .. }
            | Error::RemoteTimeout { pid, .. }
            | Error::Memory { pid, .. }
            | Error::Seccomp { pid, .. }
            | Error::SeccompUnread { pid, .. }
            | Error::Occupied { pid, .. }
            | Error::NoAnswer { pid, .. }
            | Error::Left { pid, .. }
            | Error::Refused { pid, .. }
            | Error::NoCopy { pid, .. }
            | Error::NotEntered { pid, .. }
            | Error::NoRoomForCopy { pid, .. }
            | Error::EndsWithCopy { pid, .. }
            | Error::LimitHidden { pid }
            | Error::NotCompacted { pid, .. }
            | Error::NotAsked { pid, .. }
            | Error::Hook { pid, .. }
            | Error::NoHeap { pid, .. }
            | Error::UnreadableVm { pid, .. }
            | Error::BrokenVm { pid, .. }
            | Error::Ractors { pid, .. }
            | Error::Elf { pid, .. } => *pid,
            Error::AtEvent { .. }
            | Error::Image(_)
            | Error::Start { .. }
            | Error::System { .. } => return None,
        })
    }

    /// Whether trying again in a moment may help, because the reason may pass.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::NothingToBorrow { .. } | Error::WouldNotStop { .. } | Error::Stirred(_) => true,
            Error::Traced { name, .. } => name.as_deref() == Some("lancet"),
            _ => false,
        }
    }

    /// The error for a file of `/proc/PID` that could not be read.
    pub fn of_proc(pid: i32, file: &str, error: io::Error) -> Self {
        if proc_file::is_gone(&error) {
            Error::Gone(pid)
        } else {
            Error::system(format!("/proc/{pid}/{file}"), error)
        }
    }

    /// The error for memory that could not be read or written.
    pub(crate) fn of_memory(pid: i32, at: u64, error: io::Error) -> Self {
        // The memory of an address space whose last user has ended reads as an empty file.
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => Error::of_left(pid),
            _ if error.raw_os_error() == Some(libc::ESRCH) => Error::of_left(pid),
            _ => Error::Memory { pid, at, error },
        }
    }

    /// The error for an address space that its process has left: by its end, or by execve(2). Which of the two it was is read from
    /// the process; where that cannot be read, the error says why. (A process that has the same id by now is not told from the one before.)
    pub(crate) fn of_left(pid: i32) -> Self {
        match living_thread(pid) {
            Ok(Some(_)) => Error::Replaced(pid),
            Ok(None) => Error::Gone(pid),
            Err(error) => error,
        }
    }

    /// Whether it says that the process is no more, which an error of reading it alone never does.
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            Error::NoSuchProcess(_) | Error::Gone(_) | Error::Zombie(_)
        )
    }

    /// Whether it says that the memory that was opened is no more: the process has ended, or runs another program.
    pub fn is_left(&self) -> bool {
        self.is_end() || matches!(self, Error::Replaced(_) | Error::Restless(_))
    }

    /// Whether it says that nothing is mapped at an address: EIO of `/proc/PID/mem`, EFAULT of process_vm_readv(2).
    pub fn is_missing_memory(&self) -> bool {
        match self {
            Error::Memory { error, .. } => {
                matches!(error.raw_os_error(), Some(libc::EIO | libc::EFAULT))
            }
            _ => false,
        }
    }

    /// Whether lancet had no descriptor left.
    pub fn is_shortage(&self) -> bool {
        match self {
            Error::System { error, .. } | Error::Start { error, .. } => is_shortage(error),
            Error::Elf { error, .. } => error.is_shortage(),
            _ => false,
        }
    }

    /// The error for a failed system call of lancet's own, with what it was for.
    pub fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        Error::System {
            what: what.into(),
            error: error.into(),
        }
    }
}

/// The result of functions that work on a process.
pub type Result<T> = std::result::Result<T, Error>;
