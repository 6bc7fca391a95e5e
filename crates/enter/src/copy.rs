//! The copy of a guest, seen from lancet: found, begun, read through its pipe until a deadline, and ended. What asks a guest for a copy
//! (`copied`, the languages' `snapshot`) makes a `Copy`; `dump` reads it.
//!
//! The guest reports the copy's process id. It is believed only if the kernel says that this process is a child of the guest, runs the same
//! program, and has the same users, groups and capabilities: a process that has since executed another program, with other rights, must be
//! neither written to nor killed. What it is, is read again before each effect on it (`child`). The pipe is opened through
//! `/proc/PID/fd/N`, first as a path only (`O_PATH`), which has no effect on whatever file the guest has put there; what is no pipe is not
//! opened.

mod child;
pub mod confined;
mod silence;

use crate::copied::Copied;
use child::Child;
use inject::records::ReadRecords;
use languages::snapshot::copied::{CopiedProcess, lost};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use process::error::{Error, Result};
use process::guest::{self, Status};
use process::memory::GuestMemory;
use process::pid_namespace::ids_of_thread;
use process::pidfd::PidFd;
use process::priority;
use silence::{Does, LONGEST, Silence};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::Snapshot;
use wire::snapshot::allocator::{Asked, QUESTIONS};
use wire::snapshot::{Collector, Opened, SHARED, Stage};

/// Time limit until the copy has opened its pipe, for which it makes a dozen system calls.
const READY: Duration = Duration::from_secs(10);
/// A copy ends by itself after five minutes, whatever it waits for; it is not waited for until then.
const LATEST: Duration = Duration::from_secs(280);
/// Milliseconds between two looks at what a silent copy does.
const LOOK_AT_SILENT: u16 = 250;
/// Time between two looks at whether the copy has opened its pipe.
const LOOK: Duration = Duration::from_micros(100);
/// Time limit for a killed process to end: the kernel releases its memory first.
const ENDING: Duration = Duration::from_secs(10);

/// A copy of a guest; dropping this value kills it. The guest must reap it afterwards: until then the kernel keeps it as a zombie.
#[derive(Debug)]
pub struct Copy {
    parent: i32,
    child: Child,
    /// Memory of the copy. Only its agent changes anything there, and only the agent's own data.
    pub memory: GuestMemory,
    /// The reading end of its pipe; reading does not block.
    pipe: File,
    at: u64,
    starved: fn(i32),
    born: Instant,
}

impl Copy {
    /// Finds the copy that a guest has made, and opens its pipe. The copy waits until [`Copy::begin`] says what to do.
    ///
    /// # Errors
    /// The copy has ended, or is not what the guest says.
    pub fn open(parent: i32, copied: Copied) -> Result<Self> {
        let pid = find(parent, copied.id).ok_or_else(|| lost(parent, "it ended at once"))?;
        let child = Child::open(parent, pid)?;
        let memory = match GuestMemory::open(pid) {
            Ok(memory) => memory,
            Err(error) => {
                child.kill()?;
                return Err(error);
            }
        };
        if !copied.ends_first
            && let Err(error) = child.ends_first()
        {
            child.kill()?;
            child.process.has_ended(ENDING);
            return Err(lost(
                parent,
                &format!("a memory limit could have ended the program before it: {error}"),
            ));
        }
        match open_pipe(parent, (pid, &child.process), &memory, copied.at) {
            Ok(pipe) => {
                // Lowered now: the copy waits for lancet, and the guest no longer waits for the copy. One that is no copy any more
                // keeps its priority.
                if child.check().is_ok() {
                    priority::lower_copy(pid);
                }
                Ok(Copy {
                    parent,
                    child,
                    memory,
                    pipe,
                    at: copied.at,
                    starved: |_| {},
                    born: Instant::now(),
                })
            }
            // The memory of an ended process cannot be read.
            Err(_) if child.process.has_ended(Duration::ZERO) => Err(lost(parent, ENDED)),
            Err(error) => {
                child.kill()?;
                child.process.has_ended(ENDING);
                Err(error)
            }
        }
    }

    /// Tells the waiting copy what to do.
    ///
    /// # Errors
    /// It has ended meanwhile.
    pub fn begin(&self, what: Opened) -> Result<()> {
        let at = self.at + offset_of!(Snapshot, opened) as u64;
        self.memory.write(at, &(what as u32).to_le_bytes())
    }

    /// Tells the copy which of its mappings are shared with other processes (address and bytes of each), so that it makes them read-only.
    ///
    /// # Errors
    /// The copy has ended, or the list is too long.
    pub fn tell_shared(&self, shared: &[[u64; 2]]) -> Result<()> {
        if shared.len() > SHARED {
            let count = shared.len();
            return Err(Error::NotCompacted {
                pid: self.parent,
                reason: format!(
                    "it shares {count} mappings with others, and at most {SHARED} can be made read-only in a copy"
                ),
            });
        }
        let bytes: Vec<u8> = shared
            .as_flattened()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.memory
            .write(self.at + offset_of!(Snapshot, shared) as u64, &bytes)?;
        let count = shared.len() as u64;
        let at = self.at + offset_of!(Snapshot, shared_count) as u64;
        self.memory.write(at, &count.to_le_bytes())
    }

    /// Tells the copy which allocator it has and the address of the function to call.
    ///
    /// # Errors
    /// It has ended meanwhile.
    pub fn tell_asked(&self, asked: Asked, function: u64) -> Result<()> {
        let words = [asked as u64, function];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.at + offset_of!(Snapshot, asked) as u64;
        self.memory.write(at, &bytes)
    }

    /// Returns the answers of the allocator, by the number of the question.
    ///
    /// # Errors
    /// The copy has ended, so that its memory is gone.
    pub fn answers(&self) -> Result<[u64; QUESTIONS]> {
        let mut answers = [0; QUESTIONS];
        let at = self.at + offset_of!(Snapshot, answers) as u64;
        self.memory.read_words(at, &mut answers)?;
        Ok(answers)
    }

    /// Process id of the copy. It cannot be reused before the guest has reaped the copy.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// How far the copy is: the number of a [`Stage`].
    ///
    /// # Errors
    /// The copy has ended, so that its memory is gone.
    pub fn stage(&self) -> Result<u32> {
        self.memory
            .half(self.at + offset_of!(Snapshot, stage) as u64)
    }

    /// Pages of its heap, and those without an object, before and after it was compacted.
    ///
    /// # Errors
    /// The copy has ended, so that its memory is gone.
    pub fn pages(&self) -> Result<[[u64; 2]; 2]> {
        let mut words = [0; 4];
        let at = self.at + offset_of!(Snapshot, pages) as u64;
        self.memory.read_words(at, &mut words)?;
        let [all, empty, all_then, empty_then] = words;
        Ok([[all, empty], [all_then, empty_then]])
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.child.process.has_ended(Duration::ZERO)
    }

    /// The object about which the copy is asking the VM, if the copy still runs.
    pub fn at(&self) -> Option<u64> {
        self.memory
            .record::<u64>(self.at + offset_of!(Snapshot, at) as u64)
            .ok()
    }

    /// Has this be called, with the id of the guest, while the copy is waited for because it gets no processor.
    pub fn when_starved(&mut self, call: fn(i32)) {
        self.starved = call;
    }

    /// It gets no processor.
    pub fn say_starved(&self) {
        (self.starved)(self.parent);
    }

    /// Kills the copy. The guest reaps it afterwards.
    ///
    /// # Errors
    /// It does not end.
    pub fn end(self) -> Result<()> {
        self.kill()
    }

    fn kill(&self) -> Result<()> {
        self.child.kill()?;
        if self.child.process.has_ended(ENDING) {
            return Ok(());
        }
        let error = io::Error::from(io::ErrorKind::TimedOut);
        Err(Error::system(
            format!(
                "process {}, a copy of {}, does not end",
                self.child.pid, self.parent
            ),
            error,
        ))
    }
}

impl CopiedProcess for Copy {
    fn parent(&self) -> i32 {
        self.parent
    }

    fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    fn shapes(&self) -> Option<(u64, u64)> {
        let word = |field: usize| self.memory.word(self.at + field as u64);
        let list = word(offset_of!(Snapshot, shapes)).ok()?;
        let size = word(offset_of!(Snapshot, shape_size)).ok()?;
        (list != 0).then_some((list, size))
    }

    fn collector(&self) -> Option<bool> {
        let at = self.at + offset_of!(Snapshot, collector) as u64;
        match self.memory.word(at) {
            Ok(word) if word == Collector::On as u64 => Some(true),
            Ok(word) if word == Collector::Off as u64 => Some(false),
            _ => None,
        }
    }

    fn is_late(&self, until: Instant) -> bool {
        let now = Instant::now();
        now > until && now > (until + silence::starved(self.child.pid)).min(self.born + LATEST)
    }

    fn pipe(&self, until: Instant) -> Box<dyn Read + '_> {
        Box::new(Pipe::new(self, until))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // The error cannot be returned; the copy ends by itself when its pipe is closed.
        if self.child.kill().is_ok() {
            self.child.process.has_ended(ENDING);
        }
    }
}

/// Reads the pipe of one copy. A read fails when the deadline has passed, when the copy has ended, or when it hangs, so that it does not hold
/// up the command. The time for which the copy has waited for a processor does not count.
struct Pipe<'a> {
    copy: &'a Copy,
    until: Instant,
}

impl<'a> Pipe<'a> {
    /// Returns the pipe of a copy, which can be read until the instant `until`.
    fn new(copy: &'a Copy, until: Instant) -> Self {
        Pipe { copy, until }
    }

    /// Why the copy does not go on, if it does not.
    fn hangs(&self, silence: &Silence) -> Option<String> {
        let at = self.copy.at().unwrap_or(0);
        let reason = match silence.look(LONGEST) {
            Does::Works => return None,
            Does::Starves => {
                self.copy.say_starved();
                return None;
            }
            Does::Sleeps => "waits for a lock that another thread had",
            Does::Runs => "does not return",
        };
        Some(format!(
            "it hangs at the object {at:#x}: a function of its C type {reason}"
        ))
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut silence = None;
        loop {
            if self.copy.is_late(self.until) {
                return Err(io::Error::other("it took too long"));
            }
            match (&self.copy.pipe).read(into) {
                Ok(0) => return Err(io::Error::other(ENDED)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            process::stop::poll_stragglers();
            let silence = silence.get_or_insert_with(|| Silence::begin(self.copy.pid()));
            let mut wanted = [PollFd::new(self.copy.pipe.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wanted, PollTimeout::from(LOOK_AT_SILENT)) {
                // lancet was stopped by the terminal, for instance: the time without data begins anew.
                Err(Errno::EINTR) => *silence = Silence::begin(self.copy.pid()),
                Err(error) => return Err(error.into()),
                Ok(0) => {
                    if let Some(reason) = self.hangs(silence) {
                        return Err(io::Error::other(reason));
                    }
                }
                Ok(_) => {}
            }
        }
    }
}

/// The cause if a copy has ended: only its parent could read the exit status.
pub const ENDED: &str =
    "it was ended (by a memory limit, a signal, or a fault in a function of an extension)";

/// The child that has this id in the guest's own PID namespace.
fn find(parent: i32, id: u64) -> Option<i32> {
    let ids = |pid: i32| ids_of_thread(pid, pid);
    let depth = ids(parent)?.len().checked_sub(1)?;
    let id = i32::try_from(id).ok()?;
    let has_it = |pid: &i32| ids(*pid).is_some_and(|ids| ids.get(depth) == Some(&id));
    guest::children(parent).into_iter().find(has_it)
}

/// Waits until the pipe is there, and opens it.
fn open_pipe(
    parent: i32,
    (pid, process): (i32, &PidFd),
    memory: &GuestMemory,
    at: u64,
) -> Result<File> {
    let field = |field: usize| at + field as u64;
    let until = Instant::now() + READY;
    while memory.half(field(offset_of!(Snapshot, stage)))? == Stage::None as u32 {
        process::stop::poll_stragglers();
        let has_ended = match Status::read(pid) {
            Ok(status) => status.has_ended(),
            Err(error) => error.is_end(),
        };
        if has_ended {
            return Err(lost(
                parent,
                "it ended before it wrote anything (a seccomp filter, or no memory)",
            ));
        }
        if Instant::now() > until {
            return Err(lost(parent, "it did not begin to write within 10 s"));
        }
        sleep(LOOK);
    }
    let number = memory.word(field(offset_of!(Snapshot, pipe)))?;
    let opened = match open_only_a_pipe(&format!("/proc/{pid}/fd/{number}")) {
        // Only its user may open the descriptors of a process there, or who may open the files of others; to duplicate them takes the
        // right to trace it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            duplicate_only_a_pipe(process, number)
        }
        opened => opened,
    };
    opened.map_err(|error| lost(parent, &format!("its pipe: {error}")))
}

/// Duplicates a descriptor that must be of a pipe, and has reading from it not wait. The copy itself does not read from the pipe, and the
/// parent could set the same of each descriptor that it has.
fn duplicate_only_a_pipe(process: &PidFd, number: u64) -> io::Result<File> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    let pipe = process.duplicate(number)?;
    require_pipe(&pipe)?;
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(pipe)
}

fn require_pipe(found: &File) -> io::Result<()> {
    if found.metadata()?.file_type().is_fifo() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what the guest calls a pipe is none",
        ))
    }
}

fn open_only_a_pipe(path: &str) -> io::Result<File> {
    let found = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    require_pipe(&found)?;
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}
