//! The memory of a process whose file `/proc/PID/mem` may not be opened for writing. Used by `memory`.
//!
//! The file belongs to the user of the process and has mode 0600. A lancet with CAP_SYS_PTRACE alone, as in a container that was started
//! with `--cap-drop=ALL --cap-add=SYS_PTRACE`, may trace the process, but lacks CAP_DAC_OVERRIDE, by which root opens files of others.
//! The kernel has calls that ask for the right to trace and for nothing else:
//!
//! | what | how | from |
//! |---|---|---|
//! | reading | the file, where it may be opened for reading (CAP_DAC_READ_SEARCH); otherwise process_vm_readv(2) | mm/process_vm_access.c |
//! | writing memory that the process may write | process_vm_writev(2) | mm/process_vm_access.c |
//! | writing other memory | `PTRACE_POKEDATA`, 8 bytes a call, while one of its threads stands still for us | `ptrace_access_vm`, kernel/ptrace.c |
//!
//! These calls name the process by its id, so after an exec they would reach another program. So its mappings (`/proc/PID/maps`, which
//! everybody who may trace may read) are kept open: that file stays bound to the address space in which it was opened, and reads as empty
//! once the process has left it (`m_start`, fs/proc/task_mmu.c). They are looked at before each write and after each read. Between that
//! look and a write outside of a stop an exec can still come; what is written outside of a stop are words of the agent's own pages, at
//! addresses that the kernel chooses at random.

use crate::descriptors;
use crate::error::{Error, Result};
use crate::maps::{Maps, PAGE};
use crate::proc_file;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek};
use std::os::unix::fs::FileExt;

/// Number of bytes that one `PTRACE_POKEDATA` writes.
const WORD: usize = size_of::<u64>();

/// Access by calls that name the process; see the module's documentation.
#[derive(Debug)]
pub(super) struct ByCalls {
    pid: i32,
    /// Its memory for reading only, where that may be opened.
    readable: Option<File>,
    /// Its mappings, which say whether it still is in the address space in which they were opened.
    mappings: File,
}

impl ByCalls {
    /// Opens the memory of a process. The kernel checks here whether we may trace it.
    ///
    /// # Errors
    /// The kernel refuses both ways of reading (EPERM, EACCES), or the process is gone.
    pub fn open(pid: i32) -> io::Result<Self> {
        let mut mappings = File::open(proc_file::path(pid, "maps"))?;
        let mut text = Vec::new();
        mappings.read_to_end(&mut text)?;
        mappings.rewind()?;
        let readable = File::open(proc_file::path(pid, "mem")).ok();
        let memory = ByCalls {
            pid,
            readable,
            mappings,
        };
        let maps = Maps::parse(&text);
        let mut own = maps.iter().filter(|mapping| mapping.permissions.read);
        let Some(first) = own.next() else {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        };
        match memory.read_exact_at(&mut [0], first.start) {
            // Whether we may read was checked before the kernel found that nothing can be read there (a device).
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EIO)) => {
                Err(error)
            }
            _ => Ok(memory),
        }
    }

    /// The id by which the kernel finds its memory.
    fn id(&self) -> Pid {
        Pid::from_raw(proc_file::shown_by(self.pid))
    }

    /// Checks that the process still is in the address space that was opened; the error is ESRCH if it is not.
    fn check_same(&self) -> io::Result<()> {
        match self.mappings.read_at(&mut [0], 0)? {
            0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Ok(()),
        }
    }

    /// Whether the process is no more in that address space.
    pub fn is_left(&self) -> bool {
        let checked = self.check_same();
        checked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    }

    /// Reads as [`FileExt::read_at`] does of `/proc/PID/mem`.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        if let Some(file) = &self.readable {
            return file.read_at(into, at);
        }
        let from = [RemoteIoVec {
            base: at as usize,
            len: into.len(),
        }];
        let read = process_vm_readv(self.id(), &mut [IoSliceMut::new(into)], &from);
        // Before an error too: what could not be read may be the memory of another program.
        self.check_same()?;
        Ok(read?)
    }

    /// Fills `into`.
    pub fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_at(into, at)? {
                0 => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                read => {
                    into = &mut into[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes `bytes`, whatever the protection of the page is if a thread of the process stands still for us.
    ///
    /// # Errors
    /// [`Error::WriteProtected`] if the process may not write there and none of its threads stands still for this thread of ours.
    pub fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        let failed = |error: io::Error| Error::of_memory(self.pid, at, error);
        self.check_same().map_err(failed)?;
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let to = [RemoteIoVec {
                base: at as usize + done,
                len: rest.len(),
            }];
            match process_vm_writev(self.id(), &[IoSlice::new(rest)], &to) {
                Ok(0) => return Err(Error::of_left(self.pid)),
                Ok(written) => done += written,
                // The page is not there, or the process may not write it.
                Err(nix::errno::Errno::EFAULT) => {
                    let here = at + done as u64;
                    let in_page = (PAGE - here % PAGE) as usize;
                    let piece = &rest[..rest.len().min(in_page)];
                    self.poke(here, piece)?;
                    done += piece.len();
                }
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        Ok(())
    }

    /// Writes bytes of one page by ptrace. Words that are as they should be already are left out, and bytes that differ within
    /// eight of one another are written by one call, so that a kill of ours never cuts a patch.
    fn poke(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let failed = |error: io::Error| Error::of_memory(self.pid, at, error);
        let page = at / PAGE * PAGE;
        let mut now = vec![0; PAGE as usize];
        self.read_exact_at(&mut now, page).map_err(failed)?;
        let from = (at - page) as usize;
        let mut wanted = now.clone();
        wanted[from..from + bytes.len()].copy_from_slice(bytes);
        let Some(tid) = self.stopped_thread() else {
            return Err(Error::WriteProtected(self.pid));
        };
        let mut next = from;
        while let Some(differs) =
            (next..from + bytes.len()).find(|byte| now[*byte] != wanted[*byte])
        {
            let start = differs.min(wanted.len() - WORD);
            let mut word = [0; WORD];
            word.copy_from_slice(&wanted[start..start + WORD]);
            crate::ptrace::poke(tid, page + start as u64, u64::from_le_bytes(word))
                .map_err(|errno| failed(errno.into()))?;
            next = start + WORD;
        }
        Ok(())
    }

    /// A thread of the process that stands still for this thread of ours.
    fn stopped_thread(&self) -> Option<i32> {
        let stands = |tid: &i32| crate::ptrace::event_message(*tid).is_ok();
        let others = || proc_file::threads(self.pid).find(|tid| stands(tid));
        Some(self.pid).filter(stands).or_else(others)
    }
}

/// Opens a memory for a moment, with the reserve of descriptors.
pub(super) fn briefly(pid: i32) -> io::Result<ByCalls> {
    descriptors::with_reserve(|| ByCalls::open(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;
    use crate::stop::{Stop, thread_state};
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A shell that becomes `cat` when it is told a line.
    fn shell() -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line; exec cat"]);
        let child = shell.stdin(Stdio::piped()).spawn().expect("sh");
        let pid = child.id() as i32;
        let ours = std::env::current_exe().expect("a program");
        let deadline = Instant::now() + Duration::from_secs(60);
        // When its own program waits for the line.
        while thread_state(pid, pid) != Some('S') || program(pid) == ours {
            assert!(Instant::now() < deadline, "it does not wait");
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    fn program(pid: i32) -> PathBuf {
        std::fs::read_link(format!("/proc/{pid}/exe")).expect("it lives")
    }

    fn end(mut child: Child) {
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    #[test]
    fn memory_is_read_and_written_by_calls() {
        let child = shell();
        let pid = child.id() as i32;
        let (calls, file) = (
            ByCalls::open(pid).expect("ours"),
            GuestMemory::open(pid).expect("ours"),
        );
        let calls = ByCalls {
            readable: None,
            ..calls
        };
        let maps = Maps::of(pid).expect("it lives");
        let mut all = maps.iter();
        let code = all
            .find(|one| one.permissions.execute && one.is_file() && one.size() > 2 * PAGE)
            .expect("code");
        let mut all = maps.iter();
        let data = all.find(|one| one.is_named("[stack]")).expect("a stack");
        // Over the end of a page, and no whole number of words.
        let of_code = code.start + PAGE - 13;
        for (at, is_code) in [(of_code, true), (data.start + PAGE - 13, false)] {
            let (mut before, mut now) = ([0; 29], [0; 29]);
            file.read_bytes(at, &mut before).expect("it is there");
            calls.read_exact_at(&mut now, at).expect("it is there");
            assert_eq!(before, now);
            let wanted = before.map(|byte| !byte);
            if is_code {
                let refused = calls.write(&wanted, at);
                assert!(
                    matches!(refused, Err(Error::WriteProtected(_))),
                    "{refused:?}"
                );
            }
            let stop = Stop::one(pid, pid, false).expect("it stops");
            calls.write(&wanted, at).expect("written");
            file.read_bytes(at, &mut now).expect("it is there");
            assert_eq!(now, wanted);
            calls.write(&before, at).expect("written");
            file.read_bytes(at, &mut now).expect("it is there");
            assert_eq!(now, before);
            drop(stop);
        }
        end(child);
        let gone = calls.read_exact_at(&mut [0], data.start);
        assert_eq!(
            gone.map_err(|error| error.raw_os_error()),
            Err(Some(libc::ESRCH))
        );
        assert!(matches!(calls.write(&[0], data.start), Err(Error::Gone(_))));
    }

    #[test]
    fn what_is_not_mapped_is_an_error_and_no_end() {
        let child = shell();
        let memory = ByCalls::open(child.id() as i32).expect("ours");
        let memory = ByCalls {
            readable: None,
            ..memory
        };
        let read = memory.read_exact_at(&mut [0; 8], PAGE);
        assert_eq!(
            read.map_err(|error| error.raw_os_error()),
            Err(Some(libc::EFAULT))
        );
        let written = memory.write(&[0; 8], PAGE);
        assert!(matches!(written, Err(Error::Memory { .. })), "{written:?}");
        end(child);
    }

    /// After an exec the same id leads to another program, which is neither read nor written.
    #[test]
    fn another_program_is_not_touched() {
        let mut child = shell();
        let pid = child.id() as i32;
        let memory = ByCalls::open(pid).expect("ours");
        let memory = ByCalls {
            readable: None,
            ..memory
        };
        assert!(!memory.is_left());
        let first = program(pid);
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"go on\n").expect("it reads");
        let deadline = Instant::now() + Duration::from_secs(60);
        while program(pid) == first {
            assert!(Instant::now() < deadline, "it is still {first:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let maps = Maps::of(pid).expect("it lives");
        let stack = maps.iter().find(|one| one.is_named("[stack]"));
        let at = stack.expect("a stack").start;
        let read = memory.read_exact_at(&mut [0], at);
        assert_eq!(
            read.map_err(|error| error.raw_os_error()),
            Err(Some(libc::ESRCH))
        );
        let written = memory.write(&[7], at);
        assert!(matches!(written, Err(Error::Replaced(_))), "{written:?}");
        assert!(written.is_err_and(|error| error.is_left() && !error.is_end()));
        assert!(memory.is_left());
        end(child);
    }
}
