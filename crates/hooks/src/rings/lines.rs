//! The script lines of a process, each stored once, whichever rings have sent it. Used by `rings`.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_stored_once_and_keeps_its_index() {
        let line = |line| Line {
            path: "app.rb".into(),
            line,
            name: "total".into(),
        };
        let mut lines = Lines::default();
        let indices = [7, 8, 7, 9, 8].map(|number| lines.index_of(line(number)));
        assert_eq!(indices, [0, 1, 0, 2, 1].map(Some));
        let stored: Vec<u32> = lines.all().iter().map(|line| line.line).collect();
        assert_eq!(stored, [7, 8, 9]);
    }

    /// A process may invent lines: their texts are kept up to a bound, and what is known stays known.
    #[test]
    fn texts_of_lines_have_a_bound() {
        let line = |line| Line {
            path: "p".repeat(1 << 20),
            line,
            name: String::new(),
        };
        let mut lines = Lines::default();
        let kept = (0..100).filter(|number| lines.index_of(line(*number)).is_some());
        assert_eq!(kept.count() as u64, MOST_LINE_BYTES >> 20);
        assert_eq!(lines.index_of(line(99)), None);
        assert_eq!(lines.index_of(line(7)), Some(7));
    }
}
