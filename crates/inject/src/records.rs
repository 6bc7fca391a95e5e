//! Reading the records that crate `wire` lays out from a guest's memory.
//!
//! `process` reads bytes and words, and does not know what the agent keeps; `wire` says how records lie in memory, and
//! has no unsafe code. This module joins the two.

use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::io;

/// A record that may be copied to and from bytes.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every bit pattern is a valid value of it.
pub unsafe trait Record: Sized {
    /// The record that `bytes` are.
    ///
    /// # Panics
    /// If there are not exactly as many bytes as the record has.
    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), size_of::<Self>());
        // SAFETY: the length was checked, and every bit pattern is a valid `Self` (the trait's promise).
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }

    /// The bytes of the record, as they lie in memory.
    fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: a live value is readable over its whole size; it has no padding (the trait's promise).
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }.to_vec()
    }
}

macro_rules! records {
    ($($type:ty),*) => { $(
        // SAFETY: `repr(C)`, integers and atomic integers only, no padding.
        unsafe impl Record for $type {}
    )* };
}
records!(
    u32,
    u64,
    wire::Header,
    wire::Config,
    wire::Account,
    wire::AccountRow,
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

/// The most bytes that are read at once. What the agent keeps is smaller by far; a process that says there is more has
/// changed what the agent wrote, and must not take our memory.
pub const MOST_BYTES: usize = 256 << 20;

/// The error for a table whose size, position or content the agent cannot have written.
pub fn implausible(pid: i32, at: u64, reason: &'static str) -> Error {
    let error = io::Error::new(io::ErrorKind::InvalidData, reason);
    Error::Memory { pid, at, error }
}

fn too_many(pid: i32, at: u64) -> Error {
    implausible(
        pid,
        at,
        "more is said to be there than the agent can have written",
    )
}

/// Reads [`Record`]s out of a memory; nothing is checked but that their bytes are readable.
pub trait ReadRecords {
    /// A copy of the record at address `at`.
    fn record<T: Record>(&self, at: u64) -> Result<T>;

    /// Copies of the `count` records that lie one behind the other from address `at` on. The count is mostly one that
    /// the process has written.
    ///
    /// # Errors
    /// They would take more than [`MOST_BYTES`], or are not all readable.
    fn records<T: Record>(&self, at: u64, count: usize) -> Result<Vec<T>>;
}

impl ReadRecords for GuestMemory {
    fn record<T: Record>(&self, at: u64) -> Result<T> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_bytes(at, &mut bytes)?;
        Ok(T::from_bytes(&bytes))
    }

    fn records<T: Record>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let size = size_of::<T>();
        let bytes = size.checked_mul(count).filter(|bytes| *bytes <= MOST_BYTES);
        let Some(bytes) = bytes else {
            return Err(too_many(self.pid(), at));
        };
        let mut bytes = vec![0; bytes];
        self.read_bytes(at, &mut bytes)?;
        Ok(bytes.chunks_exact(size).map(T::from_bytes).collect())
    }
}
