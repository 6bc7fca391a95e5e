//! The source of a recording, and the errors of reading it. Used by `find`, `read` and others here, and by crate
//! `calls`.

use crate::VERSION;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Why a recording cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin with the magic bytes of a recording.
    #[error("it is no recording of lancet's")]
    NotOne,
    /// Its version is none that this lancet reads.
    #[error(
        "it is of version {0} and this lancet reads version {VERSION}: record again, or read it with the lancet that wrote it"
    )]
    Version(u32),
    /// It ends in the middle of a segment, or before its index: its writer was killed, or the disk was full.
    #[error("it ends at byte {0} without its end: what was recorded last is missing")]
    Cut(u64),
    /// A segment's checksum or contents are wrong.
    #[error("it is damaged at byte {0}: what was recorded from there on cannot be read")]
    Damaged(u64),
}

/// A file, or bytes in memory.
pub trait Source: Sync {
    /// Reads from an offset, as `pread` does.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|of| of.len())
    }
}

impl Source for Vec<u8> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let from = usize::try_from(at).map_or(self.len(), |at| at.min(self.len()));
        let length = into.len().min(self.len() - from);
        into[..length].copy_from_slice(&self[from..from + length]);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// Reads until the buffer is full or the source ends. Returns whether it is full.
pub fn fill(source: &impl Source, into: &mut [u8], at: u64) -> io::Result<bool> {
    let mut done = 0;
    while done < into.len() {
        match source.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => return Ok(false),
            Ok(more) => done += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
