//! Memories that hold anything but what they should.

use std::fmt::Write;

use vm::{Fault, Memory};

/// Memory made up from its address: full of pointers into itself, of small numbers and of type codes.
pub struct Maze {
    pub seed: u64,
    /// One address in so many faults; 0 for none.
    pub faults: u64,
    /// Words that lead somewhere.
    pub codes: [u64; 8],
}

impl Maze {
    fn word(&self, at: u64) -> u64 {
        let mut mixed = (at ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 32;
        match mixed % 8 {
            // Aligned pointers, many of them the same.
            0..=3 => 0x10_0000 + (mixed >> 8) % 64 * 8,
            4 => mixed >> 8 & 0xff,
            5 | 6 => self.codes[(mixed >> 8) as usize % 8],
            _ => mixed,
        }
    }
}

impl Memory for Maze {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.checked_add(offset as u64).ok_or(Fault { at })?;
            let aligned = at & !7;
            if self.faults != 0 && self.word(!aligned).is_multiple_of(self.faults) {
                return Err(Fault { at });
            }
            *byte = self.word(aligned).to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }

    fn u64(&self, at: u64) -> Result<u64, Fault> {
        let fault = self.faults != 0 && self.word(!at).is_multiple_of(self.faults);
        if fault {
            Err(Fault { at })
        } else {
            Ok(self.word(at))
        }
    }
}

/// Every word the same: the shortest cycles there are.
pub struct Constant(pub u64);

impl Memory for Constant {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (offset, byte) in into.iter_mut().enumerate() {
            *byte = self.0.to_le_bytes()[(at.wrapping_add(offset as u64) % 8) as usize];
        }
        Ok(())
    }

    fn u64(&self, _: u64) -> Result<u64, Fault> {
        Ok(self.0)
    }
}

/// Takes a little, then refuses.
pub struct Short(pub usize);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

/// Bytes at an address.
pub struct Bytes(pub u64, pub Vec<u8>);

impl Bytes {
    pub fn words(at: u64, words: &[u64]) -> Bytes {
        Bytes(
            at,
            words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        )
    }
}

impl Memory for Bytes {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let begin = at.checked_sub(self.0).ok_or(Fault { at })? as usize;
        let bytes = self.1.get(begin..begin + into.len()).ok_or(Fault { at })?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// Nothing can be read.
pub struct Nothing;

impl Memory for Nothing {
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { at })
    }
}
