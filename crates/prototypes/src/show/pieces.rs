//! The guest's memory as far as it is known.

/// Bytes by address.
pub trait Memory {
    /// Fills the buffer with what lies at the address, wholly, or says that it cannot.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

impl<F: Fn(u64, &mut [u8]) -> bool> Memory for F {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self(at, into)
    }
}

/// What hooks copied of one call: pieces of memory, laid over one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Where each lay, and where in `bytes` it begins; the next one's beginning is its end.
    pieces: Vec<(u64, u32)>,
    bytes: Vec<u8>,
}

impl Pieces {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Lays a piece over those before: add the call's first, then the return's.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() && at.checked_add(bytes.len() as u64).is_some() {
            self.pieces.push((at, self.bytes.len() as u32));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Lays others over those before.
    pub fn lay(&mut self, others: &Self) {
        for (at, bytes) in others.iter() {
            self.add(at, bytes);
        }
    }

    /// Takes out the last piece that lies at this address, and what was added behind it.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Self {
        let mut behind = Self::new();
        let Some(first) = self.pieces.iter().rposition(|(lies, _)| *lies == at) else {
            return behind;
        };
        for (at, bytes) in self.iter().skip(first) {
            behind.add(at, bytes);
        }
        self.bytes.truncate(self.pieces[first].1 as usize);
        self.pieces.truncate(first);
        behind
    }

    fn piece(&self, index: usize) -> (u64, &[u8]) {
        let (at, from) = self.pieces[index];
        let next = self.pieces.get(index + 1);
        let to = next.map_or(self.bytes.len(), |(_, from)| *from as usize);
        (at, &self.bytes[from as usize..to])
    }

    /// Every piece, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.pieces.len()).map(|index| self.piece(index))
    }

    /// Forgets all, to be used for the next call.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
    }
}

impl Memory for Pieces {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let Some(here) = at.checked_add(done as u64) else {
                return false;
            };
            let found = (0..self.pieces.len()).rev().find_map(|index| {
                let (start, bytes) = self.piece(index);
                let offset = usize::try_from(here.checked_sub(start)?).ok()?;
                (offset < bytes.len()).then(|| (index, &bytes[offset..]))
            });
            let Some((index, bytes)) = found else {
                return false;
            };
            // A newer piece may begin inside this one.
            let newer = self.pieces[index + 1..].iter().map(|(start, _)| *start);
            let until = newer
                .filter(|start| *start > here)
                .map(|start| start - here)
                .min();
            let most = until
                .and_then(|until| usize::try_from(until).ok())
                .unwrap_or(usize::MAX);
            let len = bytes.len().min(into.len() - done).min(most);
            into[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_an_address_and_came_behind_it_is_taken_out() {
        let added: [(u64, &[u8]); 4] = [(8, b"early"), (4, b"four"), (8, b"late"), (12, b"more")];
        let mut pieces = Pieces::new();
        for (at, bytes) in added {
            pieces.add(at, bytes);
        }
        assert_eq!(pieces.split_off(5), Pieces::new());
        let behind = pieces.split_off(8);
        assert!(pieces.iter().eq(added[..2].iter().copied()));
        assert!(behind.iter().eq(added[2..].iter().copied()));
        pieces.add(20, b"new");
        assert_eq!(pieces.iter().last(), Some((20, &b"new"[..])));
    }
}
