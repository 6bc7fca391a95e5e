//! The bytes that the child writes: [`wire::snapshot`]. Used by `languages::python::snapshot`,
//! `languages::ruby::snapshot::walk`, `child` and others.

use super::pipe;
use crate::memory::follow::ours;
use crate::memory::sys;

/// Bytes of the buffer, and how many of them a single number may still take when it is not yet sent.
const ROOM: usize = 256 << 10;
const LONGEST: usize = 16;

/// The stream of one snapshot, which the child fills while it walks over its heap. It is sent whenever its buffer is nearly full; what is in the
/// buffer at the end is lost unless [`Stream::send`] is called.
pub struct Stream {
    write: u64,
    /// A mapping made for it, because the child may use no allocator.
    buffer: &'static mut [u8],
    used: usize,
}

impl Stream {
    /// Returns a stream into the pipe with the descriptor `write`; `None` if there is no memory for its buffer.
    pub fn new(write: u64) -> Option<Self> {
        let at = sys::map(ROOM as u64)?;
        // SAFETY: a fresh mapping of this size, which nobody else knows and nobody gives back.
        let buffer = unsafe { core::slice::from_raw_parts_mut(ours::<u8>(at), ROOM) };
        Some(Stream {
            write,
            buffer,
            used: 0,
        })
    }

    /// Appends a byte, and sends the buffer if it is nearly full.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        if let Some(place) = self.buffer.get_mut(self.used) {
            *place = byte;
            self.used += 1;
        }
        if self.used > ROOM - LONGEST {
            self.send();
        }
    }

    /// Appends a number as an unsigned LEB128, 7 bits a byte, the lowest first.
    #[inline]
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Sends what has been written.
    pub fn send(&mut self) {
        pipe::send(self.write, self.buffer.get(..self.used).unwrap_or(&[]));
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
