//! A guest's memory through `/proc/PID/mem`.
//!
//! One descriptor serves all reading and writing. It stays bound to the address space it was opened
//! on, so that after an exec a read fails instead of returning another program's bytes; and a write
//! goes through page protections (`FOLL_FORCE`), which is how code is written without ever making
//! it writable for the guest.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// See the module's text.
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
                    reason: String::new(),
                },
                _ => Error::system(format!("/proc/{pid}/mem"), error),
            })?;
        Ok(GuestMemory { pid, file })
    }

    /// Whose memory it is.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Fills `into` from `at`.
    pub fn read_bytes(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, at)
            .map_err(|error| self.error(at, error))
    }

    /// Fills `into` with the words from `at`.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> Result<()> {
        let length = size_of_val(into);
        // SAFETY: the words are ours for as long as the bytes are looked at; any bytes are words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), length) };
        self.read_bytes(at, bytes)
    }

    /// Writes `bytes` at `at`, whatever the page's protection.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| self.error(at, error))
    }

    /// The word at `at`.
    pub fn word(&self, at: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read_bytes(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The 32-bit word at `at`.
    pub fn half(&self, at: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_bytes(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// A copy of the plain record of type `T` at `at`.
    pub fn record<T: Record>(&self, at: u64) -> Result<T> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_bytes(at, &mut bytes)?;
        Ok(T::from_bytes(&bytes))
    }

    /// `count` plain records of type `T` from `at`.
    pub fn records<T: Record>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let size = size_of::<T>();
        let mut bytes = vec![0; size * count];
        self.read_bytes(at, &mut bytes)?;
        Ok(bytes.chunks_exact(size).map(T::from_bytes).collect())
    }

    fn error(&self, at: u64, error: io::Error) -> Error {
        // An address space whose last user is gone reads as an empty file.
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

/// A record that can be copied byte by byte: `repr(C)`, no padding that matters, every bit pattern
/// valid.
///
/// # Safety
/// The implementor promises just that.
pub unsafe trait Record: Sized {
    /// The record in `bytes`, which are as long as it is.
    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), size_of::<Self>());
        // SAFETY: the length was checked, and every bit pattern is a valid `Self` (the trait's promise).
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: a live value is readable over its whole size; padding does not exist in records.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }.to_vec()
    }
}

macro_rules! records {
    ($($type:ty),*) => { $(
        // SAFETY: `repr(C)`, integers only, no padding.
        unsafe impl Record for $type {}
    )* };
}
records!(
    u32,
    u64,
    wire::Arrival,
    wire::Header,
    wire::Config,
    wire::Site,
    wire::Frame,
    wire::Kind,
    wire::Counts,
    wire::Collection,
    wire::Entry,
    wire::Segments,
    wire::calls::Area,
    wire::calls::Hook,
    wire::calls::Count,
    wire::notices::Notice
);
