//! The parts of the guest's memory that are known.

/// Memory that is read by address.
pub trait Memory {
    /// Fills the whole buffer with the bytes at the address; false if it cannot.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Returns bytes from the address on that lie in one piece, if there are any: what [`Memory::read`] would copy, as
    /// far as the piece goes. Text is written faster from a piece than character by character; a memory that has none
    /// shows the same.
    fn piece(&self, _at: u64) -> Option<&[u8]> {
        None
    }
}

impl<F: Fn(u64, &mut [u8]) -> bool> Memory for F {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self(at, into)
    }
}

/// Copies that hooks made of one call: parts of its memory, of which a later one hides an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    /// The address of each, and where in `bytes` it begins; it ends where the next one begins.
    captures: Vec<(u64, u32)>,
    bytes: Vec<u8>,
}

impl Captures {
    /// No captures.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            captures: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds a capture that hides those before: add the call's first, then the return's.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() && at.checked_add(bytes.len() as u64).is_some() {
            self.captures.push((at, self.bytes.len() as u32));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Adds a capture of which the bytes are in words, the last one padded, as in a ring; as [`Captures::add`] does.
    pub fn add_words(&mut self, at: u64, words: &[u64], length: usize) {
        if length == 0 || at.checked_add(length as u64).is_none() {
            return;
        }
        let begins = self.bytes.len();
        self.captures.push((at, begins as u32));
        self.bytes.reserve(words.len() * 8);
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.truncate(begins + length);
    }

    /// Adds others, which hide those before.
    pub fn lay(&mut self, others: &Self) {
        for (at, bytes) in others.iter() {
            self.add(at, bytes);
        }
    }

    /// Removes the last capture at this address, and what was added after it, and returns them.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Self {
        let mut behind = Self::new();
        let Some(first) = self.captures.iter().rposition(|(lies, _)| *lies == at) else {
            return behind;
        };
        for (at, bytes) in self.iter().skip(first) {
            behind.add(at, bytes);
        }
        self.bytes.truncate(self.captures[first].1 as usize);
        self.captures.truncate(first);
        behind
    }

    fn capture(&self, index: usize) -> (u64, &[u8]) {
        let (at, from) = self.captures[index];
        let next = self.captures.get(index + 1);
        let to = next.map_or(self.bytes.len(), |(_, from)| *from as usize);
        (at, &self.bytes[from as usize..to])
    }

    /// Returns the number of captures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.captures.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.captures.is_empty()
    }

    /// Returns the bytes of memory that they take, about.
    #[must_use]
    pub fn size(&self) -> usize {
        self.captures.len() * size_of::<(u64, u32)>() + self.bytes.len()
    }

    /// Returns every capture with its address, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.captures.len()).map(|index| self.capture(index))
    }

    /// Removes all, to be used for the next call.
    pub fn clear(&mut self) {
        self.captures.clear();
        self.bytes.clear();
    }
}

impl Memory for Captures {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let here = at.checked_add(done as u64);
            let Some(bytes) = here.and_then(|here| self.piece(here)) else {
                return false;
            };
            let len = bytes.len().min(into.len() - done);
            into[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        true
    }

    fn piece(&self, at: u64) -> Option<&[u8]> {
        let (index, bytes) = (0..self.captures.len()).rev().find_map(|index| {
            let (start, bytes) = self.capture(index);
            let offset = usize::try_from(at.checked_sub(start)?).ok()?;
            let rest = bytes.get(offset..)?;
            (!rest.is_empty()).then_some((index, rest))
        })?;
        // A newer capture may begin inside this one.
        let newer = self.captures[index + 1..].iter().map(|(start, _)| *start);
        let until = newer
            .filter_map(|start| start.checked_sub(at))
            .filter(|distance| *distance != 0)
            .min();
        let most = until.and_then(|until| usize::try_from(until).ok());
        Some(&bytes[..bytes.len().min(most.unwrap_or(usize::MAX))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_bytes_that_they_hold() {
        let (mut words, mut bytes) = (Captures::new(), Captures::new());
        let text = b"eight and three";
        let (two, _) = text.split_at(11);
        words.add_words(
            5,
            &[
                u64::from_le_bytes(*b"eight an"),
                u64::from_le_bytes(*b"d three\0"),
            ],
            11,
        );
        bytes.add(5, two);
        words.add_words(u64::MAX, &[1], 1);
        words.add_words(9, &[], 0);
        assert_eq!(words, bytes);
    }

    #[test]
    fn what_lies_at_an_address_and_came_behind_it_is_taken_out() {
        let added: [(u64, &[u8]); 4] = [(8, b"early"), (4, b"four"), (8, b"late"), (12, b"more")];
        let mut captures = Captures::new();
        for (at, bytes) in added {
            captures.add(at, bytes);
        }
        assert_eq!(captures.split_off(5), Captures::new());
        let behind = captures.split_off(8);
        assert!(captures.iter().eq(added[..2].iter().copied()));
        assert!(behind.iter().eq(added[2..].iter().copied()));
        captures.add(20, b"new");
        assert_eq!(captures.iter().last(), Some((20, &b"new"[..])));
    }
}
