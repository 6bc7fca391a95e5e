//! Records of one ring that were read and have not been returned yet. Used by `rings` and `read`.
//!
//! Records of all rings are returned in the order of time. But each ring is read a part at a time, so that every
//! thread has room again soon. So a record waits here until no other ring can have an earlier one.

/// Whole records, each with its first word, in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    words: Vec<u64>,
    /// Index of the word at which the next record begins.
    next: usize,
}

impl Queue {
    /// Adds whole records behind those that wait.
    pub fn add(&mut self, words: &[u64]) {
        if self.next == self.words.len() {
            self.words.clear();
            self.next = 0;
        }
        self.words.extend_from_slice(words);
    }

    /// The number of words that wait.
    pub fn waiting(&self) -> usize {
        self.words.len() - self.next
    }

    /// The oldest record that waits, if any does.
    pub fn front(&self) -> Option<&[u64]> {
        Self::first(self.all())
    }

    /// The first of some complete records.
    pub fn first(records: &[u64]) -> Option<&[u64]> {
        let length = (*records.first()? & 0xffff) as usize;
        records.get(..length.max(1))
    }

    /// All records that wait.
    pub fn all(&self) -> &[u64] {
        &self.words[self.next..]
    }

    /// Drops the oldest record.
    pub fn advance(&mut self) {
        self.next += self.front().map_or(0, <[u64]>::len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process can write a record without a length: it counts as its first word, so that who goes on behind it comes to an end.
    #[test]
    fn a_record_without_a_length_is_a_word() {
        let mut queue = Queue::default();
        queue.add(&[0, 2 << 16, 0x5_0003, 1, 2]);
        let mut lengths = Vec::new();
        while let Some(record) = queue.front() {
            lengths.push(record.len());
            queue.advance();
            assert!(lengths.len() < 10, "{lengths:?}");
        }
        assert_eq!((lengths, queue.waiting()), (vec![1, 1, 3], 0));
    }

    /// A record that says to be longer than all that was read is none.
    #[test]
    fn a_record_beyond_what_was_read_is_none() {
        assert_eq!(Queue::first(&[4, 1, 2]), None);
        assert_eq!(Queue::first(&[]), None);
    }
}
