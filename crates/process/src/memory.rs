//! A guest's memory through `/proc/PID/mem`.
//!
//! One descriptor serves all reading and writing. It stays bound to the address space it was opened on
//! (`fs/proc/base.c`, `mem_open`), so that after an exec a read fails instead of returning another program's bytes; and
//! a write ignores page protections (`FOLL_FORCE`), so code can be written without ever being made writable for the
//! guest.

use crate::error::{Denial, Error, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The open memory of one process; see the module's documentation.
#[derive(Debug)]
pub struct GuestMemory {
    pid: i32,
    file: File,
}

impl GuestMemory {
    /// Opens the memory of process `pid`; the kernel checks here whether we may trace it.
    pub fn open(pid: i32) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::NoSuchProcess(pid),
                io::ErrorKind::PermissionDenied => Error::NotAllowed {
                    pid,
                    reason: Denial::Unknown,
                },
                _ => Error::system(format!("/proc/{pid}/mem"), error),
            })?;
        Ok(GuestMemory { pid, file })
    }

    /// Returns the process whose memory it is.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Fills `into` with the bytes from address `at` on. All of them must be readable: if one page is not, this is an
    /// error, and what `into` holds is not specified.
    pub fn read_bytes(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, at)
            .map_err(|error| self.error(at, error))
    }

    /// Fills `into` with the 64-bit words from address `at` on.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> Result<()> {
        let length = size_of_val(into);
        // SAFETY: the words are ours for as long as the bytes are looked at; any bytes are words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), length) };
        self.read_bytes(at, bytes)
    }

    /// Writes `bytes` at address `at`, whatever the protection of the page.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| self.error(at, error))
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

    fn error(&self, at: u64, error: io::Error) -> Error {
        // An address space whose last user has ended reads as an empty file.
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => Error::Gone(self.pid),
            _ if error.raw_os_error() == Some(libc::ESRCH) => Error::Gone(self.pid),
            _ => Error::Memory {
                pid: self.pid,
                at,
                error,
            },
        }
    }
}

impl vm::Memory for GuestMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        self.file
            .read_exact_at(into, at)
            .map_err(|_| vm::Fault { at })
    }
}
