//! Lines of a file of prototypes that are read when their names are asked for. Used by `bundle`.
//!
//! A program makes some twenty of the 370 system calls, and a bundled file describes thousands of functions: whoever starts a program
//! waits for what is read before. So a bundled file is only cut into lines at first. A line is read, by the same grammar as a whole file
//! ([`Library::parse`]), when its name is first asked for, and before it the definitions of all types whose names stand in it. A file of
//! the user's is read as a whole, because what is wrong in it must be said.

use crate::library::Library;
use crate::types::{Prototype, Type};
use std::collections::HashMap;

/// A file of which those lines were read that were asked for.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines that define a type and were not read yet, in their order: a struct is announced, then defined.
    types: HashMap<&'static str, Vec<&'static str>>,
    /// The line of each function that was not read yet.
    functions: HashMap<&'static str, &'static str>,
    /// The types and functions whose lines were read.
    library: Library,
}

impl Lines {
    /// Cuts a file into its lines. It must import no other file.
    pub fn of(text: &'static str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            if line.starts_with([';', '#']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix("typedef ") {
                let name = words(rest).next().unwrap_or_default();
                all.types.entry(name).or_default().push(line);
                continue;
            }
            debug_assert!(!line.starts_with("import"), "{line}");
            if let Some(name) = function_of(line) {
                all.functions.insert(name, line);
            }
        }
        all
    }

    /// Returns the prototype of a function.
    pub fn prototype(&mut self, function: &str) -> Option<Prototype> {
        if let Some(line) = self.functions.remove(function) {
            self.read(line);
        }
        self.library.prototype(function).cloned()
    }

    /// Returns a named type.
    pub fn ty(&mut self, name: &str) -> Option<Type> {
        self.define(name);
        self.library.ty(name)
    }

    /// Reads the lines that define a type. They are taken out first, because a struct may hold itself.
    fn define(&mut self, name: &str) {
        for line in self.types.remove(name).unwrap_or_default() {
            self.read(line);
        }
    }

    fn read(&mut self, line: &'static str) {
        for word in words(line) {
            self.define(word);
        }
        // A test makes sure that no line has a problem.
        self.library.read_line(line);
    }
}

/// The words of a line: names of types among others.
fn words(line: &'static str) -> impl Iterator<Item = &'static str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty())
}

/// The function that a line describes: the name behind the type of its result, which may have brackets and parentheses.
fn function_of(line: &'static str) -> Option<&'static str> {
    let mut rest = behind_word(line);
    while rest.starts_with(['[', '(']) {
        rest = behind_group(rest)?;
    }
    let name = rest.trim_start_matches([' ', '*']);
    let length = name.len() - behind_word(name).len();
    (length > 0).then(|| &name[..length])
}

fn behind_word(text: &'static str) -> &'static str {
    text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// What stands behind a pair of brackets or parentheses.
fn behind_group(text: &'static str) -> Option<&'static str> {
    let mut depth = 0;
    let end = text.find(|c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    text.get(end? + 1..)
}
