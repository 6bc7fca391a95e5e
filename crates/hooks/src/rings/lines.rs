//! The script lines of a process, each stored once, whichever rings have sent it.

use super::Line;
use crate::limits::{MOST_LINE_BYTES, MOST_LINES};
use std::collections::HashMap;

/// Lines by the index that events use.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    all: Vec<Line>,
    by_line: HashMap<Line, usize>,
    /// Sum of the bytes of the texts in `all`.
    bytes: u64,
}

impl Lines {
    /// Returns all lines; their places here never change.
    pub fn all(&self) -> &[Line] {
        &self.all
    }

    /// Returns the index of a line, which is added if it is new; `None` if there is no room for another.
    pub fn index_of(&mut self, line: Line) -> Option<usize> {
        if let Some(index) = self.by_line.get(&line) {
            return Some(*index);
        }
        let bytes = self.bytes + (line.path.len() + line.name.len()) as u64;
        if self.all.len() >= MOST_LINES || bytes > MOST_LINE_BYTES {
            return None;
        }
        self.bytes = bytes;
        self.all.push(line.clone());
        self.by_line.insert(line, self.all.len() - 1);
        Some(self.all.len() - 1)
    }
}
