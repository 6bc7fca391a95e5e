//! Script lines, which rings name by numbers once their text was told.

use super::{Line, Rings};
use crate::limits::{MOST_LINE_BYTES, MOST_LINES, MOST_NUMBERS};

impl Rings {
    /// Notes the line that a ring calls by a number from now on. One for which there is no room is counted as lost.
    pub(super) fn learn_line(&mut self, at: usize, number: u32, line: Line) {
        let places = &mut self.places;
        let index = match self.by_line.get(&line) {
            Some(index) => Some(*index),
            None => {
                let bytes = self.line_bytes + (line.path.len() + line.name.len()) as u64;
                let room = places.len() < MOST_LINES && bytes <= MOST_LINE_BYTES;
                room.then(|| {
                    self.line_bytes = bytes;
                    places.push(line.clone());
                    self.by_line.insert(line, places.len() - 1);
                    places.len() - 1
                })
            }
        };
        let numbered = &mut self.known[at].places;
        // What the number meant before must not be told in its place.
        let before = numbered.remove(&number).is_some();
        self.numbers -= usize::from(before);
        match index.filter(|_| self.numbers < MOST_NUMBERS) {
            Some(index) => {
                numbered.insert(number, index);
                self.numbers += 1;
            }
            None => self.lines_lost += 1,
        }
    }
}
