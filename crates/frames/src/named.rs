//! What is told apart by the text that a table has for it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// A place, or whatever else rows are made by. Two are the same where a table has the same text for them; the first is kept.
#[derive(Clone, Debug, Default)]
pub struct Named<T> {
    /// What a table has for it.
    pub text: String,
    /// What it is besides.
    pub what: T,
}

impl<T> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Named<T> {}

impl<T> Hash for Named<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl<T> PartialOrd for Named<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Named<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// Those that were met, each once. One that is met again costs no memory.
#[derive(Clone, Debug)]
pub struct Names<T> {
    known: HashMap<String, Rc<Named<T>>>,
    /// Room for the text that is looked for.
    text: String,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names {
            known: HashMap::new(),
            text: String::new(),
        }
    }
}

impl<T> Names<T> {
    /// Returns the one with the text that `write` writes; `make` says what it is besides, if it is new.
    pub fn of(
        &mut self,
        write: impl FnOnce(&mut String),
        make: impl FnOnce() -> T,
    ) -> Rc<Named<T>> {
        self.text.clear();
        write(&mut self.text);
        if let Some(known) = self.known.get(&self.text) {
            return Rc::clone(known);
        }
        let new = Rc::new(Named {
            text: self.text.clone(),
            what: make(),
        });
        self.known.insert(self.text.clone(), Rc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_text_is_kept() {
        let mut names = Names::default();
        let first = names.of(|text| text.push_str("a.rb:1"), || 1);
        let again = names.of(
            |text| text.push_str("a.rb:1"),
            || unreachable!("it is known"),
        );
        let other = names.of(|text| text.push_str("a.rb:2"), || 2);
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!((first.what, other.what), (1, 2));
        assert!(first < other);
    }
}
