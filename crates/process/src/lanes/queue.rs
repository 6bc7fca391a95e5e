//! Records of one lane that were read and are not handed on yet.
//!
//! What lanes tell is handed on in the order of time, and a lane is read a part at a time, so that every thread gets room
//! again soon. So a record waits here until no lane can come with an earlier one.

/// Whole records, each with its first word, in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    words: Vec<u64>,
    /// Where the next one begins.
    next: usize,
}

impl Queue {
    /// Adds whole records.
    pub fn add(&mut self, words: &[u64]) {
        if self.next == self.words.len() {
            self.words.clear();
            self.next = 0;
        }
        self.words.extend_from_slice(words);
    }

    /// Words that wait.
    pub fn waiting(&self) -> usize {
        self.words.len() - self.next
    }

    /// The next record.
    pub fn front(&self) -> Option<&[u64]> {
        let rest = &self.words[self.next..];
        let length = (*rest.first()? & 0xffff) as usize;
        rest.get(..length.max(1))
    }

    /// Goes to the one behind it.
    pub fn advance(&mut self) {
        self.next += self.front().map_or(0, <[u64]>::len);
    }
}
