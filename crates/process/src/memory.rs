//! Reads and writes a guest's memory through `/proc/PID/mem`. Used by `functions`, `guest` and others here, and by most
//! crates above.
//!
//! One descriptor serves all reading and writing. It stays bound to the address space it was opened on
//! (`fs/proc/base.c`, `mem_open`), so that after an exec a read fails instead of returning another program's bytes; and
//! a write ignores page protections (`FOLL_FORCE`), so code can be written without ever being made writable for the
//! guest. A kernel from 6.12 on may have been started with `proc_mem.force_override=ptrace`: then only a tracer writes
//! pages that the process itself may not write (`proc_mem_foll_force`, fs/proc/base.c), so such a write is made in a stop;
//! or with `=never`: then nobody does ([`Error::WriteProtected`]).
//!
//! Where that file may not be opened, but the process be traced, other calls take its place: see `by_calls`.

mod by_calls;

use crate::descriptors::with_reserve;
use crate::error::{Error, Result, Tried};
use crate::guest::why_not_allowed;
use crate::proc_file;
use by_calls::ByCalls;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

/// The open memory of one process; see the module's documentation.
#[derive(Debug)]
pub struct GuestMemory {
    pid: i32,
    access: Access,
}

#[derive(Debug)]
enum Access {
    /// `/proc/PID/mem`, open for reading and writing.
    File(File),
    /// Calls that name the process.
    Calls(ByCalls),
}

impl GuestMemory {
    /// Opens the memory of process `pid`; the kernel checks here whether we may trace it.
    pub fn open(pid: i32) -> Result<Self> {
        Self::open_by(pid, || open_file(pid), || ByCalls::open(pid))
    }

    /// Like [`GuestMemory::open`], for a moment: where no descriptor is left, one of the reserve is used.
    pub fn open_briefly(pid: i32) -> Result<Self> {
        let file = || with_reserve(|| open_file(pid));
        Self::open_by(pid, file, || by_calls::briefly(pid))
    }

    fn open_by(
        pid: i32,
        file: impl FnOnce() -> io::Result<File>,
        calls: impl FnOnce() -> io::Result<ByCalls>,
    ) -> Result<Self> {
        let opened = match file() {
            Ok(file) => Ok(Access::File(file)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                calls().map(Access::Calls)
            }
            Err(error) => Err(error),
        };
        let access = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => why_not_allowed(pid, Tried::Memory),
            _ if proc_file::is_gone(&error) => Error::NoSuchProcess(pid),
            _ => Error::system(proc_file::path(pid, "mem").display().to_string(), error),
        })?;
        Ok(GuestMemory { pid, access })
    }

    /// Uses a file as the memory of our own process: its offsets are the addresses. For fuzz targets, which read images of what a process
    /// may have written.
    pub fn image(file: File) -> Self {
        let pid = std::process::id() as i32;
        GuestMemory {
            pid,
            access: Access::File(file),
        }
    }

    /// Returns the process whose memory it is.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Fills `into` with the bytes from address `at` on. All of them must be readable: if one page is not, this is an
    /// error, and what `into` holds is not specified.
    pub fn read_bytes(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.read_all(at, into)
            .map_err(|error| Error::of_memory(self.pid, at, error))
    }

    /// Reads from address `at` on as far as memory is readable, at most as much as `into` holds, and returns the number of bytes. It is one
    /// system call: the kernel copies page by page and stops at the first page that it cannot read (`mem_rw` in fs/proc/base.c).
    pub fn read_up_to(&self, at: u64, into: &mut [u8]) -> usize {
        let read = match &self.access {
            Access::File(file) => file.read_at(into, at),
            Access::Calls(calls) => calls.read_at(into, at),
        };
        read.unwrap_or(0)
    }

    /// Like [`GuestMemory::read_up_to`], but it ends where the process itself could not read, as at the guard behind a stack. `/proc/PID/mem`
    /// reads guards too, and what lies behind them: of a thread with a small stack, 64 KiB of other threads' stacks. It is for a process that
    /// stands still for us, because the system call takes a process by its id.
    pub fn read_up_to_guard(&self, at: u64, into: &mut [u8]) -> usize {
        let from = [RemoteIoVec {
            base: at as usize,
            len: into.len(),
        }];
        let mut read = |id| {
            let mut into = [IoSliceMut::new(into)];
            process_vm_readv(Pid::from_raw(id), &mut into, &from)
        };
        // Which thread shows the memory is asked only where the first one does not: the question takes longer than the answer.
        let read = match read(self.pid) {
            Err(nix::errno::Errno::ESRCH) => read(proc_file::shown_by(self.pid)),
            read => read,
        };
        match read {
            Ok(read) => read,
            // The stack pointer leads to nothing.
            Err(nix::errno::Errno::EFAULT) => 0,
            Err(_) => self.read_up_to(at, into),
        }
    }

    /// Reads several places as [`GuestMemory::read_up_to_guard`] does, by one system call where none of them ends early. Each place is an
    /// address and a number of bytes, at most `room`, and so many bytes of `into` are for each. Returns how many bytes each has.
    pub fn read_each_up_to_guard(
        &self,
        places: &[(u64, usize)],
        room: usize,
        into: &mut [u8],
    ) -> Vec<usize> {
        let mut lengths = Vec::with_capacity(places.len());
        while let Some(left) = places.get(lengths.len()..).filter(|left| !left.is_empty()) {
            let rooms = &mut into[lengths.len() * room..];
            let ours = rooms.chunks_mut(room).zip(left);
            let mut ours: Vec<_> = ours
                .map(|(ours, (_, length))| IoSliceMut::new(&mut ours[..*length]))
                .collect();
            let theirs = left.iter().map(|(at, len)| RemoteIoVec {
                base: *at as usize,
                len: *len,
            });
            let theirs: Vec<_> = theirs.collect();
            let mut read =
                process_vm_readv(Pid::from_raw(self.pid), &mut ours, &theirs).unwrap_or(0);
            let whole = left.iter().take_while(|(_, length)| {
                let rest = read.checked_sub(*length);
                read = rest.unwrap_or(0);
                rest.is_some()
            });
            let whole = whole.count();
            lengths.extend(left[..whole].iter().map(|(_, length)| *length));
            // The first that was not read whole, of which a sum of bytes does not say why.
            if let Some((at, length)) = left.get(whole) {
                let ours = &mut rooms[whole * room..whole * room + length];
                lengths.push(self.read_up_to_guard(*at, ours));
            }
        }
        lengths
    }

    /// Whether the memory is left by all who used it: its process has ended or runs another program.
    pub fn is_left(&self) -> bool {
        // The kernel answers 0 bytes for such a memory (`mem_rw`, fs/proc/base.c), and EIO for an address where nothing is.
        const NOWHERE: u64 = 16;
        match &self.access {
            Access::File(file) => file.read_at(&mut [0], NOWHERE).is_ok_and(|read| read == 0),
            Access::Calls(calls) => calls.is_left(),
        }
    }

    fn read_all(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.access {
            Access::File(file) => file.read_exact_at(into, at),
            Access::Calls(calls) => calls.read_exact_at(into, at),
        }
    }

    /// Fills `into` with the 64-bit words from address `at` on.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> Result<()> {
        let length = size_of_val(into);
        // SAFETY: the bytes are those of `into`, which is borrowed mutably for as long as they are used; every bit pattern is a valid
        // `u64`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), length) };
        self.read_bytes(at, bytes)
    }

    /// Writes `bytes` at address `at`, whatever the protection of the page.
    ///
    /// # Errors
    /// [`Error::WriteProtected`] if the kernel does not ignore the protection; then nothing was written to that page.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        #[cfg(debug_assertions)]
        if stricter::refuses(self.pid, at, bytes.len() as u64) {
            return Err(Error::WriteProtected(self.pid));
        }
        let file = match &self.access {
            Access::File(file) => file,
            Access::Calls(calls) => return calls.write(bytes, at),
        };
        file.write_all_at(bytes, at).map_err(|error| {
            // The kernel returns the same error for pages that do not exist.
            if error.raw_os_error() == Some(libc::EIO) && self.read_bytes(at, &mut [0]).is_ok() {
                Error::WriteProtected(self.pid)
            } else {
                Error::of_memory(self.pid, at, error)
            }
        })
    }

    /// Whether one write changes all of its bytes of one page, or none of them, whatever the protection of the page is and however lancet
    /// ends. Otherwise that holds for eight bytes.
    pub fn writes_whole_pages(&self) -> bool {
        matches!(self.access, Access::File(_))
    }

    /// Reads the 64-bit word at address `at`.
    pub fn word(&self, at: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read_bytes(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads the 32-bit word at address `at`.
    pub fn half(&self, at: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_bytes(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

/// Opens the file for reading and writing.
fn open_file(pid: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(proc_file::path(pid, "mem"))
}

impl vm::Memory for GuestMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        self.read_all(at, into).map_err(|_| vm::Fault { at })
    }
}

/// The kernel's parameter `proc_mem.force_override`, for tests on a kernel that was started without it: in a build with
/// debug assertions the variable `LANCET_FORCE_OVERRIDE` has its place (`ptrace` or `never`).
#[cfg(debug_assertions)]
mod stricter {
    use crate::maps::Maps;

    /// Whether such a kernel would refuse a write of `bytes` bytes.
    pub fn refuses(pid: i32, at: u64, bytes: u64) -> bool {
        let may_force = match std::env::var("LANCET_FORCE_OVERRIDE").as_deref() {
            Ok("ptrace") => is_traced_by_us(pid),
            Ok("never") => false,
            _ => return false,
        };
        let Ok(maps) = Maps::read(pid) else {
            return false;
        };
        let touched = maps
            .iter()
            .filter(|mapping| mapping.start < at + bytes && at < mapping.end);
        !may_force && touched.into_iter().any(|one| !one.permissions.write)
    }

    fn is_traced_by_us(pid: i32) -> bool {
        let tracer = crate::status_file::StatusFile::of(pid).ok();
        tracer.and_then(|status| status.number("TracerPid")) == Some(std::process::id())
    }
}
