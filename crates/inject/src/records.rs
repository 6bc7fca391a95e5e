//! Reads the records that crate `wire` defines from a guest's memory. Used by `resident` and `residents`, and by the
//! crates `hooks`, `births` and `enter`.
//!
//! `process` reads bytes and words and does not know the agent's data; `wire` defines the layout of records and has no
//! unsafe code. This module joins the two.

use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::io;

/// A record that may be copied to and from bytes.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every bit pattern is a valid value of it.
pub unsafe trait Record: Sized {
    /// Makes the record of its bytes.
    ///
    /// # Panics
    /// If there are not exactly as many bytes as the record has.
    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), size_of::<Self>());
        // SAFETY: the length was checked above, so the bytes cover the whole value; by the trait's contract every bit
        // pattern is a valid `Self`.
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }

    /// Returns the bytes of the record, as they lie in memory.
    fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: `self` is a live value of that size; by the trait's contract it has no padding, so every byte is
        // initialised.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }.to_vec()
    }
}

macro_rules! records {
    ($($type:ty),*) => { $(
        // SAFETY: the type is `repr(C)` and consists of integers and atomic integers without padding, so every bit
        // pattern is valid.
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
    wire::Large,
    wire::Entry,
    wire::Segments,
    wire::calls::Area,
    wire::calls::Hook,
    wire::calls::Count,
    wire::calls::blocks::Row,
    wire::notices::Notice
);

/// Limit of the bytes that are read at once. The agent's data are much smaller; a process that claims more has changed
/// what the agent wrote, and must not make lancet allocate memory for it.
pub const MOST_BYTES: usize = 256 << 20;

/// Returns the error for a table whose size, position or content the agent cannot have written.
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

/// Reads [`Record`]s from a memory. Only that their bytes are readable is checked.
pub trait ReadRecords {
    /// Returns a copy of the record at address `at`.
    fn record<T: Record>(&self, at: u64) -> Result<T>;

    /// Returns copies of the `count` adjacent records from address `at` on. The count often comes from the process.
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
