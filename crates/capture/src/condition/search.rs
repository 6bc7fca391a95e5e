//! Searching a text that is read in chunks. Used by `condition`.

use super::{How, LONGEST_SOUGHT, PAGE};

/// Bytes that are read at once.
const CHUNK: usize = 256;

/// A text that is searched for, in place, and its length.
pub(super) struct Literal {
    bytes: [u8; LONGEST_SOUGHT],
    length: usize,
}

pub(super) fn literal(words: &[u64], length: usize) -> Literal {
    let mut bytes = [0; LONGEST_SOUGHT];
    for (into, word) in bytes.chunks_exact_mut(8).zip(words) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    Literal {
        bytes,
        length: length.min(LONGEST_SOUGHT),
    }
}

impl Literal {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A text in the guest's memory.
pub(super) struct InMemory<R> {
    pub at: u64,
    pub left: u64,
    /// Whether the text has a known number of bytes; else it ends at a NUL.
    pub counted: bool,
    pub read: R,
}

impl<R: FnMut(u64, &mut [u8]) -> usize> InMemory<R> {
    /// Reads the next bytes and returns how many; `None` = they cannot be read.
    pub fn fetch(&mut self, into: &mut [u8]) -> Option<usize> {
        let page = (PAGE - self.at % PAGE) as usize;
        let length = page.min(into.len()).min(self.left as usize);
        if length == 0 {
            return Some(0);
        }
        let into = &mut into[..length];
        // Nothing is mapped in the first page.
        let length = match self.at {
            ..PAGE => 0,
            at => (self.read)(at, into).min(length),
        };
        if length == 0 {
            return None;
        }
        let into = &into[..length];
        self.at = self.at.wrapping_add(length as u64);
        self.left -= length as u64;
        if !self.counted
            && let Some(end) = into.iter().position(|byte| *byte == 0)
        {
            self.left = 0;
            return Some(end);
        }
        Some(length)
    }
}

/// Returns whether a text that is read in chunks, of which an empty one is the last, meets the comparison. A text that
/// cannot be read does not.
pub(super) fn search(
    how: How,
    sought: &Literal,
    fetch: impl FnMut(&mut [u8]) -> Option<usize>,
) -> bool {
    found(how, sought, fetch).is_some_and(|found| found != how.not)
}

fn found(
    how: How,
    sought: &Literal,
    mut fetch: impl FnMut(&mut [u8]) -> Option<usize>,
) -> Option<bool> {
    let sought = sought.bytes();
    let mut buffer = [0; LONGEST_SOUGHT + CHUNK];
    // Bytes kept from the chunk before: what is searched for may begin there.
    let mut kept = 0;
    let mut seen = 0;
    loop {
        let more = fetch(&mut buffer[kept..kept + CHUNK])?;
        if how.folded {
            buffer[kept..kept + more].make_ascii_lowercase();
        }
        let chunk = &buffer[..kept + more];
        if how.within {
            if contains(chunk, sought) {
                return Some(true);
            }
            if more == 0 {
                return Some(false);
            }
            let keep = chunk.len().min(sought.len().saturating_sub(1));
            let from = chunk.len() - keep;
            buffer.copy_within(from..from + keep, 0);
            kept = keep;
        } else {
            if more == 0 {
                return Some(seen == sought.len());
            }
            if !sought[seen..].starts_with(chunk) {
                return Some(false);
            }
            seen += more;
        }
    }
}

fn contains(chunk: &[u8], sought: &[u8]) -> bool {
    let Some(first) = sought.first() else {
        return true;
    };
    let last = chunk.len().saturating_sub(sought.len() - 1);
    (0..last).any(|at| chunk[at] == *first && chunk[at..at + sought.len()] == *sought)
}
