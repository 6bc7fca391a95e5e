//! The parts of the guest's memory that are known of a call, because they were copied. Used by `value` and `varargs`,
//! and by the crates `calls`, `report`, `syscalls` and `recording`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// From so many captures on they are found by an index: the guest decides how many there are, and each read would look at all of them.
const INDEXED: usize = 16;

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
#[derive(Clone, Debug, Default)]
pub struct Captures {
    /// The address of each, and where in `bytes` it begins; it ends where the next one begins.
    captures: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    /// Made by the first read, if there are many; no capture has been added or removed since.
    index: OnceLock<Vec<Visible>>,
}

/// Bytes of a capture that no later one hides.
#[derive(Clone, Copy, Debug)]
struct Visible {
    begin: u64,
    end: u64,
    /// Where in `bytes` they begin.
    from: u32,
}

impl PartialEq for Captures {
    fn eq(&self, other: &Self) -> bool {
        self.captures == other.captures && self.bytes == other.bytes
    }
}

impl Eq for Captures {}

impl Captures {
    /// Returns captures that are empty: no memory is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            captures: Vec::new(),
            bytes: Vec::new(),
            index: OnceLock::new(),
        }
    }

    /// Adds a capture that hides those before: add the call's first, then the return's.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() && at.checked_add(bytes.len() as u64).is_some() {
            self.index.take();
            self.captures.push((at, self.bytes.len() as u32));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Adds a capture of which the bytes are in words, the last one padded, as in a ring; as [`Captures::add`] does.
    pub fn add_words(&mut self, at: u64, words: &[u64], length: usize) {
        if length == 0 || at.checked_add(length as u64).is_none() {
            return;
        }
        self.index.take();
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
        self.index.take();
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
        self.index.take();
        self.captures.clear();
        self.bytes.clear();
    }

    /// What is visible, by address: from the last capture to the first, what none behind it has taken.
    fn visible(&self) -> Vec<Visible> {
        let mut taken: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for index in (0..self.captures.len()).rev() {
            let (at, bytes) = self.capture(index);
            let (from, end) = (self.captures[index].1, at + bytes.len() as u64);
            let before = taken.range(..at).next_back().map(|(_, (end, _))| *end);
            let mut here = before.map_or(at, |end| end.max(at));
            while here < end {
                let next = taken
                    .range(here..)
                    .next()
                    .map(|(begin, (end, _))| (*begin, *end));
                let (stop, behind) = next.filter(|(begin, _)| *begin < end).unwrap_or((end, end));
                if stop > here {
                    taken.insert(here, (stop, from + (here - at) as u32));
                }
                here = behind;
            }
        }
        let visible = taken.into_iter();
        visible
            .map(|(begin, (end, from))| Visible { begin, end, from })
            .collect()
    }

    /// [`Memory::piece`] by the index.
    fn indexed(&self, at: u64) -> Option<&[u8]> {
        let index = self.index.get_or_init(|| self.visible());
        let behind = index.partition_point(|visible| visible.begin <= at);
        let Visible { begin, end, from } = *index.get(behind.checked_sub(1)?)?;
        let from = from as usize;
        let bytes = &self.bytes[from..from + (end - begin) as usize];
        bytes
            .get((at - begin) as usize..)
            .filter(|rest| !rest.is_empty())
    }

    /// The same by a look at each.
    fn searched(&self, at: u64) -> Option<&[u8]> {
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
        match self.captures.len() < INDEXED {
            true => self.searched(at),
            false => self.indexed(at),
        }
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

    /// Captures that hide parts of each other, of lengths and at places that repeat late.
    fn overlapping(count: u64) -> Captures {
        let mut captures = Captures::new();
        for number in 0..count {
            let bytes: Vec<u8> = (0..number * 7 % 23).map(|at| (number + at) as u8).collect();
            captures.add(1_000 + number * 389 % 500, &bytes);
        }
        captures
    }

    #[test]
    fn the_index_says_what_a_search_says() {
        let captures = overlapping(200);
        let byte = |piece: Option<&[u8]>| piece.map(|piece| piece[0]);
        for at in 990..1_530 {
            let (indexed, searched) = (captures.indexed(at), captures.searched(at));
            assert_eq!(byte(indexed), byte(searched), "{at}");
            let mut read = vec![0; indexed.map_or(0, <[u8]>::len)];
            assert!(captures.read(at, &mut read) && Some(&read[..]) == indexed.or(Some(&[])));
        }
        let known = (990..1_530).filter(|at| captures.indexed(*at).is_some());
        assert!((100..500).contains(&known.count()));
    }

    #[test]
    fn the_index_goes_with_what_it_is_of() {
        let mut captures = overlapping(20);
        assert_eq!(captures.indexed(5_000), None);
        captures.add(5_000, b"later");
        assert_eq!(captures.indexed(5_001), Some(&b"ater"[..]));
        assert_eq!(captures.split_off(5_000).len(), 1);
        assert_eq!(captures.indexed(5_000), None);
        captures.add_words(5_000, &[1], 8);
        assert!(captures.indexed(5_000).is_some());
    }

    /// A guest's `execve` may have that many pointers and texts; looked at one by one for each of them this takes minutes.
    #[test]
    fn many_captures_are_read_in_time() {
        let mut captures = Captures::new();
        for number in 0..200_000 {
            captures.add(number * 8, &number.to_le_bytes());
        }
        for number in 0..200_000_u64 {
            let mut word = [0; 8];
            assert!(captures.read(number * 8, &mut word));
            assert_eq!(u64::from_le_bytes(word), number);
        }
    }
}
