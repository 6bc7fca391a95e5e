//! The tables of the forms in which a stack is numbers: texts, functions and the places in them, each once. Used by
//! `firefox`, `otlp` and `pprof`.
//!
//! ```text
//! stack ─▶ location ─▶ function ─▶ text: name, file
//!              └─ line
//! ```
//!
//! Row 0 of each table is its zero value (the empty text, the function of no name), which OpenTelemetry wants in front, and to which no frame
//! leads. So a form whose numbers begin with 1 leaves it out and keeps the numbers. Rows are in the order in which they were asked for first, so
//! the same stacks make the same tables.

use indexmap::IndexSet;

use super::form::{Frame, Stack};
use crate::text::printable;

/// Tables that are being made. A row is told by its number.
pub(super) struct Dictionary {
    /// As a person may be shown them.
    pub texts: IndexSet<String>,
    pub functions: IndexSet<Function>,
    pub locations: IndexSet<Location>,
}

/// A function: the texts of its name and its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub name: usize,
    pub file: usize,
}

/// A line of a function; 0: it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Location {
    pub function: usize,
    pub line: u32,
}

impl Dictionary {
    pub fn new() -> Self {
        Dictionary {
            texts: [String::new()].into(),
            functions: [Function::default()].into(),
            locations: [Location::default()].into(),
        }
    }

    /// The number of a text.
    pub fn text(&mut self, text: &str) -> usize {
        let text = printable(text);
        let known = self.texts.get_index_of(&*text);
        known.unwrap_or_else(|| self.texts.insert_full(text.into_owned()).0)
    }

    /// The number of a frame's place. One that has no function is named by its text.
    pub fn location(&mut self, frame: &Frame<'_>) -> usize {
        let place = &frame.place;
        let names = [place.qualified.as_deref(), place.function.as_deref()];
        let mut names = names.into_iter().flatten().chain([&*frame.text]);
        let name = names.find(|name| !name.is_empty()).unwrap_or("?");
        let function = Function {
            name: self.text(name),
            file: self.text(place.path.as_deref().unwrap_or("")),
        };
        let location = Location {
            function: self.functions.insert_full(function).0,
            line: place.line.unwrap_or(0),
        };
        self.locations.insert_full(location).0
    }

    /// The numbers of a stack's places, the innermost first. Its type is not among them.
    pub fn innermost_first(&mut self, stack: &Stack<'_>) -> Vec<usize> {
        let frames = stack.frames.iter().rev();
        frames.map(|frame| self.location(frame)).collect()
    }
}

#[cfg(test)]
mod tests {
    use answer::place::Place;

    use super::*;

    #[test]
    fn each_is_there_once_and_none_has_the_number_of_nothing() {
        let mut tables = Dictionary::new();
        let nowhere = Frame::default();
        let unnamed = Frame {
            text: "app.rb:3".into(),
            place: Place::new("app.rb", 3, ""),
        };
        let frames = [&Frame::named("run"), &unnamed, &nowhere, &unnamed];
        let numbers = frames.map(|frame| tables.location(frame));
        assert_eq!(numbers, [1, 2, 3, 2]);
        let names = tables.functions.iter().map(|it| &*tables.texts[it.name]);
        assert_eq!(names.collect::<Vec<_>>(), ["", "run", "app.rb:3", "?"]);
        let acts = tables.text("a\u{1b}[2J");
        assert_eq!(tables.texts[acts], "a\\x1b[2J");
    }
}
