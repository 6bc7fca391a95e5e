//! Reads memory of a stopped process for a program of copies with few system calls. Used by `traced`.

use process::memory::GuestMemory;
use prototypes::capture::CopyLimits;

/// What was read last, with what lies behind it: a program copies an array word by word, and a long text piece by piece, and each would be a
/// system call.
pub(super) struct Near {
    from: u64,
    bytes: [u8; Near::SIZE],
    length: usize,
}

impl Default for Near {
    fn default() -> Self {
        Near {
            from: 0,
            bytes: [0; Near::SIZE],
            length: 0,
        }
    }
}

impl Near {
    const SIZE: usize = 4096;
    /// What is read ahead for a word; a longer piece is one by itself, unless it is as long as pieces may be: then more come behind it.
    const AHEAD: usize = 512;
    const SHORT: usize = 16;
    const PAGE: u64 = 4096;

    /// Fills a buffer from memory; false if it cannot be read.
    pub(super) fn read(&mut self, memory: &GuestMemory, at: u64, into: &mut [u8]) -> bool {
        if self.serves(at, into) {
            return true;
        }
        let ahead = match into.len() {
            ..=Near::SHORT => Near::AHEAD,
            CopyLimits::CHUNK.. => Near::SIZE,
            _ => return memory.read_bytes(at, into).is_ok(),
        };
        // Within one page, all can be read or nothing.
        let length = (Near::PAGE - at % Near::PAGE).min(ahead as u64) as usize;
        self.length = 0;
        if memory.read_bytes(at, &mut self.bytes[..length]).is_ok() {
            (self.from, self.length) = (at, length);
        }
        self.serves(at, into) || memory.read_bytes(at, into).is_ok()
    }

    fn serves(&self, at: u64, into: &mut [u8]) -> bool {
        let known = &self.bytes[..self.length];
        let from = at
            .checked_sub(self.from)
            .and_then(|from| usize::try_from(from).ok());
        let found = from.and_then(|from| known.get(from..)?.get(..into.len()));
        found.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }
}
