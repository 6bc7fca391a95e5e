//! Identifies a process, and decides whether it can be opened at all. Used by `stop::taking`, `wait::others` and others
//! here, and by most crates above.
//!
//! Everything here only reads `/proc/PID`. It comes before the first ptrace request, so a guest that cannot be opened is not even
//! stopped.

use crate::denial::reason_for;
use crate::error::{Error, Result, Tried};
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::proc_file;
use crate::shadow_stack;
use crate::status_file::StatusFile;
use crate::threads::{exits, living_thread};
use crate::tries::{PAUSE, Tries};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// What `/proc/PID` says about a process, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its id in the PID namespace of lancet.
    pub pid: i32,
    /// Name of its main thread (`comm`), at most 15 bytes.
    pub name: String,
    /// The thread by which the kernel shows it: its main thread, or, if that has ended while others run on, another.
    pub thread: i32,
    /// State of that thread, the letter of field 3 of `/proc/PID/stat`: R, S, D, T, t, Z, X, I.
    pub state: char,
    /// Id of its parent.
    pub parent: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`. With the id it names one process among all
    /// of this boot.
    pub start: u64,
    /// The address at which its stack begins, which an exec changes; 0 if we may not read it.
    pub stack: u64,
    /// How it ended, as wait(2) would tell its parent (field 52 of `/proc/PID/stat`); 0 while it runs, and if we may not read it.
    pub exit_status: i32,
    /// Id of the process that traces it; 0 = none.
    pub tracer: i32,
    /// Id of its real user.
    pub user: u32,
    /// Seccomp mode of that thread: 0 = none, 1 = strict, 2 = filter.
    pub seccomp: u32,
    /// Whether that thread has a shadow stack (CET, since Linux 6.6).
    pub shadow_stack: bool,
}

/// The reason for which a thread with a shadow stack makes no remote calls.
pub const SHADOW_STACK: &str =
    "it runs with a shadow stack, which refuses the return frame of a remote call";

/// The reason for which a thread whose system calls go to the program's own handler makes no remote calls: these calls would go there
/// too.
pub const DISPATCHES: &str = "system calls of its main thread go to a handler of its own (Syscall User Dispatch), as those that lancet has it make would";

/// Returns the seccomp mode of a thread: 0 = none, 1 = strict, 2 = filter; `None` if the thread is gone.
///
/// # Errors
/// It cannot be read, and so the thread may have a filter.
pub fn seccomp_mode(pid: i32, tid: i32) -> Result<Option<u32>> {
    match StatusFile::of_thread(pid, tid) {
        // A kernel without seccomp has no such field.
        Ok(status) => Ok(Some(status.number("Seccomp").unwrap_or(0))),
        Err(error) if proc_file::is_gone(&error) => Ok(None),
        Err(error) => Err(Error::system(
            format!("/proc/{pid}/task/{tid}/status"),
            error,
        )),
    }
}

/// Whether a thread is under seccomp; false if it is gone.
///
/// # Errors
/// As for [`seccomp_mode`].
pub fn has_filter(pid: i32, tid: i32) -> Result<bool> {
    Ok(seccomp_mode(pid, tid)?.is_some_and(|mode| mode != 0))
}

impl Status {
    /// Reads the status of a process.
    pub fn read(pid: i32) -> Result<Self> {
        let stat = read_proc(pid, "stat")?;
        // The name is in parentheses and may hold any character, also `) `: the last one ends it.
        let damaged = || Error::system(format!("/proc/{pid}/stat"), io::ErrorKind::InvalidData);
        let (head, tail) = stat.rsplit_once(") ").ok_or_else(damaged)?;
        let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let another = living_beside(pid, tail);
        let thread = another.as_ref().map_or(pid, |(tid, _)| *tid);
        let status = match &another {
            // It may have ended by now; what its process shows then is what is left.
            Some((tid, _)) => StatusFile::of_thread(pid, *tid).unwrap_or_default(),
            None => StatusFile::from_text(read_proc(pid, "status")?),
        };
        let of_thread = |number| {
            let another = another.as_ref();
            another.and_then(|(_, stat)| proc_file::stat_field(stat, number))
        };
        let number = |name| status.number(name).unwrap_or(0u32);
        Ok(Status {
            pid,
            name,
            thread,
            state: of_thread(3)
                .or(fields.first().copied())
                .and_then(|field| field.chars().next())
                .ok_or_else(damaged)?,
            parent: fields
                .get(1)
                .and_then(|field| field.parse().ok())
                .ok_or_else(damaged)?,
            start: fields
                .get(19)
                .and_then(|field| field.parse().ok())
                .ok_or_else(damaged)?,
            stack: of_thread(28)
                .or(fields.get(25).copied())
                .and_then(|field| field.parse().ok())
                .unwrap_or(0),
            exit_status: fields
                .get(49)
                .and_then(|field| field.parse().ok())
                .unwrap_or(0),
            tracer: number("TracerPid") as i32,
            user: number("Uid"),
            seccomp: number("Seccomp"),
            shadow_stack: shadow_stack::in_status(&status),
        })
    }

    /// Returns why a process cannot be opened, as an error.
    pub fn check(&self) -> Result<()> {
        self.check_to_look()?;
        let pid = self.pid;
        if self.state == 'T' {
            return Err(Error::Stopped(pid));
        }
        if self.shadow_stack {
            return Err(Error::NotAGuest {
                pid,
                reason: SHADOW_STACK,
            });
        }
        if self.seccomp == 1 {
            return Err(Error::Seccomp {
                pid,
                reason: "in strict mode the kernel would kill it at the first call of ours".into(),
            });
        }
        Ok(())
    }

    /// Like [`Status::check`], for a process that is only read and in which no code of ours will run.
    pub fn check_to_look(&self) -> Result<()> {
        if self.tracer != 0 && self.pid != std::process::id() as i32 {
            return Err(traced(self.pid, self.tracer));
        }
        self.check_to_watch()
    }

    /// Like [`Status::check_to_look`], for a process that is not stopped either: only the kernel's own files are read, so it may be
    /// traced by another process.
    pub fn check_to_watch(&self) -> Result<()> {
        let pid = self.pid;
        if pid == std::process::id() as i32 {
            return Err(Error::NotAGuest {
                pid,
                reason: "it is lancet itself",
            });
        }
        match self.state {
            'Z' => return Err(Error::Zombie(pid)),
            'X' => return Err(Error::Gone(pid)),
            _ => {}
        }
        if fs::read_link(proc_file::path(pid, "exe"))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            return Err(Error::NotAGuest {
                pid,
                reason: "it has no program (a kernel thread, or it is ending)",
            });
        }
        Ok(())
    }

    /// Checks that something of it runs on: an answer is waited for that a thread must give.
    ///
    /// # Errors
    /// [`Error::Gone`] if it has ended, [`Error::Stopped`] if a signal has stopped it.
    pub fn check_goes_on(&self) -> Result<()> {
        match self.state {
            _ if self.has_ended() => Err(Error::Gone(self.pid)),
            'T' => Err(Error::Stopped(self.pid)),
            _ => Ok(()),
        }
    }

    /// Checks that the process id still names the same process, and that it runs.
    ///
    /// # Errors
    /// [`Error::Gone`] if it has ended, or its id names another process; another error if that cannot be found out.
    pub fn check_current(&self) -> Result<()> {
        match Status::read(self.pid) {
            Ok(now) if now.start == self.start && !now.has_ended() => Ok(()),
            Ok(_) | Err(Error::NoSuchProcess(_)) => Err(Error::Gone(self.pid)),
            Err(error) => Err(error),
        }
    }

    /// Whether the process has ended, or its id names another one by now. A process about which that cannot be found out is not gone: what
    /// is in it is taken out when it can be, and nothing is said of its end.
    pub fn is_gone(&self) -> bool {
        matches!(self.check_current(), Err(Error::Gone(_)))
    }

    /// Whether it has threads besides its first one now.
    pub fn has_other_threads(&self) -> bool {
        threads_live_on(self.pid)
    }

    /// Whether it has ended: no thread lived when this was read, and none goes on now. False where that cannot be found out.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && matches!(living_thread(self.pid), Ok(None))
    }

    /// Whether its first thread was a zombie when this was read, or was being removed.
    pub fn first_has_ended(&self) -> bool {
        self.thread != self.pid || matches!(self.state, 'Z' | 'X')
    }
}

/// Returns a thread of a process that lives though its first one has ended (`pthread_exit` in `main`), with its `stat` file. `tail` is what
/// that of the first thread holds from its state on.
fn living_beside(pid: i32, tail: &str) -> Option<(i32, String)> {
    let has_ended = tail.starts_with(['Z', 'X']);
    let tid = has_ended.then(|| living_thread(pid).ok())???;
    let stat = proc_file::of_thread(pid, tid, "stat").ok()?;
    Some((tid, stat))
}

/// Returns whether a process has threads besides its first one.
fn threads_live_on(pid: i32) -> bool {
    proc_file::threads(pid).count() > 1
}

/// Returns the status, memory and mappings of a process that is to be opened, or why it cannot be opened. The process
/// is not stopped for this.
pub fn reach(pid: i32) -> Result<(Status, Arc<GuestMemory>, Maps)> {
    let status = openable(pid)?;
    reach_memory(status)
}

/// Returns the memory of a process that is only read. Nothing in it will be changed, and no code of ours will run in it, so 32-bit
/// programs and those under seccomp are accepted.
pub fn reach_to_look(pid: i32) -> Result<Arc<GuestMemory>> {
    let mut tries = Tries::begin();
    loop {
        match Status::read(pid)?.check_to_look() {
            Err(error) if tries.again(&error) => {}
            checked => break checked?,
        }
    }
    GuestMemory::open(pid).map(Arc::new)
}

/// Like [`reach`], for a process that we trace already and that stands at its exec. It also checks what its C library is about to turn
/// on: without remote calls the hooks could not be taken out.
pub fn reach_ours(pid: i32) -> Result<(Status, Arc<GuestMemory>, Maps)> {
    let mut status = Status::read(pid)?;
    status.tracer = 0;
    status.shadow_stack |= shadow_stack::will_come(pid);
    status.check()?;
    reach_memory(status)
}

fn reach_memory(status: Status) -> Result<(Status, Arc<GuestMemory>, Maps)> {
    let pid = status.pid;
    let memory = GuestMemory::open(pid)?;
    crate::elf::require_x86_64(pid).map_err(|error| Error::Elf { pid, error })?;
    let maps = Maps::of(pid)?;
    Ok((status, Arc::new(memory), maps))
}

/// Returns the status of a process if it can be opened. While another lancet traces it for a moment, this waits.
fn openable(pid: i32) -> Result<Status> {
    let mut tries = Tries::begin();
    loop {
        let status = Status::read(pid)?;
        match status.check() {
            Err(error) if tries.again(&error) => {}
            checked => return checked.map(|()| status),
        }
    }
}

/// Returns the words of the command line of a process; none for one without, or that is gone. A NUL ends each in
/// `/proc/PID/cmdline`, but a program may have written something else over them.
pub fn command_words(pid: i32) -> Vec<String> {
    let text = proc_file::of_process(pid, "cmdline").unwrap_or_default();
    let mut words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    words.pop_if(|last| last.is_empty());
    words
}

/// Returns the words of the command line of a process by which it is told of, without empty ones: what a program has written over its
/// own may end in many. For a process without one, its name.
pub fn command_line(pid: i32) -> Vec<String> {
    let mut line = command_words(pid);
    line.retain(|word| !word.is_empty());
    if line.is_empty() {
        let status = Status::read(pid);
        line.extend(status.map(|status| status.name));
    }
    line
}

/// Returns the directory that a process works in; `None` if it cannot be read.
pub fn working_directory(pid: i32) -> Option<String> {
    let link = fs::read_link(proc_file::path(pid, "cwd")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Returns whether a child that a thread of this process makes would be in another PID namespace than the process
/// (`unshare(CLONE_NEWPID)`, which concerns a thread's children alone). The first one there is its init: when that ends, the kernel lets
/// no further process be made in it (pid_namespaces(7)).
pub fn has_children_elsewhere(pid: i32) -> bool {
    // The kernel has it since Linux 4.12.
    let is_told = Path::new("/proc/self/ns/pid_for_children").exists();
    proc_file::threads(pid).any(|tid| {
        let link = |name: &str| fs::read_link(format!("/proc/{pid}/task/{tid}/ns/{name}"));
        let Ok(own) = link("pid") else {
            return false;
        };
        match link("pid_for_children") {
            Ok(its) => own != its,
            // It is a namespace that no process is in yet, unless the thread is about to end and has let go of its namespaces.
            Err(error) => {
                is_told && error.kind() == io::ErrorKind::NotFound && !is_exiting(pid, tid)
            }
        }
    })
}

/// Returns whether a thread has begun to end, or has ended.
fn is_exiting(pid: i32, tid: i32) -> bool {
    let stat = proc_file::of_thread(pid, tid, "stat").ok();
    stat.and_then(|stat| exits(&stat)).unwrap_or(true)
}

/// Returns the ids of the children of a process, those included that have ended and were not waited for.
pub fn children(pid: i32) -> Vec<i32> {
    let mut found: Vec<i32> = proc_file::threads(pid)
        .filter_map(|tid| proc_file::of_thread(pid, tid, "children").ok())
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect();
    found.sort_unstable();
    found
}

/// Returns the children of a process that have ended, and that nobody has waited for.
pub fn ended_children(pid: i32) -> Vec<i32> {
    let has_ended = |child: &i32| Status::read(*child).is_ok_and(|status| status.has_ended());
    children(pid).into_iter().filter(has_ended).collect()
}

/// Returns every process below `pid`, each with its parent; parents first.
pub fn descendants(pid: i32) -> Vec<(i32, i32)> {
    let mut found: Vec<(i32, i32)> = children(pid)
        .into_iter()
        .map(|child| (pid, child))
        .collect();
    let mut next = 0;
    while let Some((_, parent)) = found.get(next).copied() {
        let more = children(parent).into_iter();
        // A process whose parent ends while the tree is read could be found twice.
        let new: Vec<_> = more
            .filter(|child| found.iter().all(|(_, known)| known != child))
            .collect();
        found.extend(new.into_iter().map(|child| (parent, child)));
        next += 1;
    }
    found
}

/// Returns these processes and, with `children`, every living one below them, each once.
pub fn family(pids: &[i32], children: bool) -> Vec<i32> {
    let mut all = pids.to_vec();
    if children {
        let below = pids.iter().flat_map(|pid| descendants(*pid));
        for (_, pid) in below {
            if !all.contains(&pid) {
                all.push(pid);
            }
        }
    }
    all
}

/// Returns the inode of the PID namespace of a process: equal for two processes in the same namespace.
pub fn pid_namespace(pid: i32) -> u64 {
    fs::metadata(proc_file::path(pid, "ns/pid")).map_or(0, |data| data.ino())
}

/// Returns the error for a process that another one traces.
pub(crate) fn traced(pid: i32, tracer: i32) -> Error {
    Error::Traced {
        pid,
        tracer,
        name: proc_file::name(tracer),
    }
}

/// Returns the error for a "permission denied", with its reason: another user, Yama, a container. `tried` is what was refused.
pub(crate) fn why_not_allowed(pid: i32, tried: Tried) -> Error {
    let reason = match Status::read(pid) {
        Err(error) => return error,
        Ok(status) if status.tracer != 0 => {
            return status.check().expect_err("a traced process is refused");
        }
        Ok(status) => reason_for(pid, status.user, tried),
    };
    Error::NotAllowed { pid, reason }
}

fn read_proc(pid: i32, file: &str) -> Result<String> {
    proc_file::of_first_thread(pid, file).map_err(|error| {
        if proc_file::is_gone(&error) {
            Error::NoSuchProcess(pid)
        } else {
            Error::system(format!("/proc/{pid}/{file}"), error)
        }
    })
}

/// Returns the error for a thread of `pid` that ptrace does not find: the process has ended, or only this thread has, and another try
/// may find the others.
pub fn missing_thread(pid: i32) -> Error {
    match living_thread(pid) {
        Ok(Some(_)) => Error::Stirred(pid),
        Ok(None) => Error::Gone(pid),
        Err(error) => error,
    }
}

/// Returns the error for a thread of `pid` that ended while it did something for us: what ended with it is read from the process.
pub fn ended_thread(pid: i32, tid: i32) -> Error {
    // A thread that is being ended with its process is seen to go on until the kernel has told it so.
    for _ in 0..LOOKS {
        match living_thread(pid) {
            Ok(Some(_)) => std::thread::sleep(PAUSE),
            Ok(None) => return Error::Gone(pid),
            Err(error) => return error,
        }
    }
    Error::ThreadEnded { pid, tid }
}

/// How often [`ended_thread`] looks.
const LOOKS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A thread that ends has let go of its namespaces before it is gone.
    #[test]
    fn threads_that_end_make_no_children_elsewhere() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::thread::spawn(|| ()).join().expect("it ends");
                    }
                });
            }
            let own = std::process::id() as i32;
            let looks = (0..20_000).filter(|_| has_children_elsewhere(own)).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(looks, 0);
        });
    }
}
