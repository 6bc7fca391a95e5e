//! The interface through which the memory of a guest is read. Used by `bytes`, `perl::call` and others here, and by
//! most crates above.

use core::fmt;

/// An address that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that could not be read, or the first of the bytes that were to be read.
    pub at: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {:#x} is not readable", self.at)
    }
}

impl core::error::Error for Fault {}

/// A guest's memory.
///
/// Only [`read`](Memory::read) must be written. An implementation that can load a word directly overrides
/// [`u32`](Memory::u32) and [`u64`](Memory::u64); the hot path of the readers uses nothing else.
pub trait Memory {
    /// Fills `into` from address `at`; the error names an address that could not be read.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Reads the byte at `at`.
    #[inline]
    fn u8(&self, at: u64) -> Result<u8, Fault> {
        let mut bytes = [0; 1];
        self.read(at, &mut bytes)?;
        Ok(bytes[0])
    }

    /// Reads a 16-bit word.
    #[inline]
    fn u16(&self, at: u64) -> Result<u16, Fault> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Reads a 32-bit word.
    #[inline]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads a 64-bit word, which may be a pointer or a Ruby `VALUE`.
    #[inline]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl<M: Memory + ?Sized> Memory for &M {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        (**self).read(at, into)
    }

    #[inline]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        (**self).u32(at)
    }

    #[inline]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        (**self).u64(at)
    }
}
