//! The memory of a program, as far as it was copied with a call. Used by `layout::custom`, `layout::custom::rings`,
//! `layout::show` and others.

use super::{Unknown, Writer};
use prototypes::show::Memory;

impl<'w> Writer<'w> {
    /// Reads memory as it was when this part of the call was seen; false if it was not copied.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        for (offset, byte) in into.iter_mut().enumerate() {
            let Some(known) = self.piece(at.wrapping_add(offset as u64)) else {
                return false;
            };
            *byte = known[0];
        }
        true
    }

    /// Bytes that were copied from there on, in one piece; at least one.
    fn piece(&self, at: u64) -> Option<&[u8]> {
        self.piece_as_of(at, self.late)
    }

    /// The same of what was copied at the return, or at the call alone.
    fn piece_as_of(&self, at: u64, late: bool) -> Option<&[u8]> {
        let overlay = self.overlay.as_ref();
        if let Some((overlay, from)) = overlay.and_then(|of| Some((of, of.offset(at)?))) {
            let bytes = if late { &overlay.now } else { &overlay.before };
            return bytes.get(from..).filter(|piece| !piece.is_empty());
        }
        let of = |captures: &'w prototypes::show::Captures| captures.piece(at);
        let found = self.call.returned.filter(|_| late);
        let found = found.and_then(|(exit, _)| of(exit));
        found
            .or_else(|| of(self.call.entry))
            .filter(|piece| !piece.is_empty())
    }

    /// The bytes from an address on that were copied, at most so many.
    pub fn bytes(&self, at: u64, most: usize) -> Vec<u8> {
        self.bytes_as_of(at, most, self.late)
    }

    /// The same as they were when the call was made.
    pub fn bytes_before(&self, at: u64, most: usize) -> Vec<u8> {
        self.bytes_as_of(at, most, false)
    }

    fn bytes_as_of(&self, at: u64, most: usize, late: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let here = at.wrapping_add(bytes.len() as u64);
            let Some(piece) = self.piece_as_of(here, late) else {
                break;
            };
            bytes.extend_from_slice(&piece[..piece.len().min(most - bytes.len())]);
        }
        bytes
    }

    /// Reads a number of `N` bytes.
    pub fn number<const N: usize>(&self, at: u64) -> Result<[u8; N], Unknown> {
        let mut bytes = [0; N];
        if self.read(at, &mut bytes) {
            Ok(bytes)
        } else {
            Err(Unknown)
        }
    }

    pub fn u32_at(&self, at: u64) -> Result<u32, Unknown> {
        self.number(at).map(u32::from_le_bytes)
    }

    pub fn u64_at(&self, at: u64) -> Result<u64, Unknown> {
        self.number(at).map(u64::from_le_bytes)
    }
}
