//! Places, and whatever else rows of a table are made by: told apart by the text that the table has for them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Memory for the texts of one table. Who is looked at chooses how many there are, and how long they are.
const MOST: usize = 64 << 20;
/// What one takes besides its text, about.
const BESIDE: usize = 256;
/// What stands for those for which there is no room.
const OTHERS: &str = "(other places)";

/// Something that a table has a text for. Two are the same where that is, and what else tells them apart; the first is kept.
#[derive(Clone, Debug, Default)]
pub struct Labelled<T> {
    /// What else tells it apart, a zero byte, the text. The first part is a name of a file or nothing, and has no zero byte.
    key: String,
    /// Where the text begins.
    begin: usize,
    /// What it is besides.
    pub what: T,
}

impl<T> Labelled<T> {
    /// One that its text tells apart.
    pub fn new(text: &str, what: T) -> Self {
        Labelled {
            key: format!("\0{text}"),
            begin: 1,
            what,
        }
    }

    /// What a table has for it.
    pub fn text(&self) -> &str {
        &self.key[self.begin..]
    }
}

impl<T> PartialEq for Labelled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Labelled<T> {}

impl<T> Hash for Labelled<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl<T> PartialOrd for Labelled<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Labelled<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// One that was met, found by its key.
#[derive(Debug)]
struct Met<T>(Rc<Labelled<T>>);

impl<T> Clone for Met<T> {
    fn clone(&self) -> Self {
        Met(Rc::clone(&self.0))
    }
}

impl<T> PartialEq for Met<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Met<T> {}

impl<T> Hash for Met<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> Borrow<str> for Met<T> {
    fn borrow(&self) -> &str {
        &self.0.key
    }
}

/// Those that were met, each once. One that is met again costs no memory, and when there are too many of them new ones are one.
#[derive(Clone, Debug)]
pub struct Labels<T> {
    met: HashSet<Met<T>>,
    /// What stands for those for which there was no room.
    others: Option<Rc<Labelled<T>>>,
    /// Memory that they take.
    bytes: usize,
    /// Room for the key that is looked for.
    key: String,
}

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Labels {
            met: HashSet::new(),
            others: None,
            bytes: 0,
            key: String::new(),
        }
    }
}

impl<T: Default> Labels<T> {
    /// Returns the one with the text that `write` writes, of this file where that tells it apart too; `make` says what it is besides, if it is
    /// new.
    pub fn intern(
        &mut self,
        file: &str,
        write: impl FnOnce(&mut String),
        make: impl FnOnce() -> T,
    ) -> Rc<Labelled<T>> {
        self.key.clear();
        self.key.push_str(file);
        self.key.push('\0');
        let begin = self.key.len();
        write(&mut self.key);
        if let Some(Met(known)) = self.met.get(self.key.as_str()) {
            return Rc::clone(known);
        }
        let bytes = self.bytes + self.key.len() + BESIDE;
        if bytes > MOST {
            let others = || Rc::new(Labelled::new(OTHERS, T::default()));
            return Rc::clone(self.others.get_or_insert_with(others));
        }
        self.bytes = bytes;
        let new = Rc::new(Labelled {
            key: self.key.clone(),
            begin,
            what: make(),
        });
        self.met.insert(Met(Rc::clone(&new)));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_text_is_kept() {
        let mut labels = Labels::default();
        let first = labels.intern("", |text| text.push_str("a.rb:1"), || 1);
        let again = labels.intern(
            "",
            |text| text.push_str("a.rb:1"),
            || unreachable!("it is known"),
        );
        let other = labels.intern("", |text| text.push_str("a.rb:2"), || 2);
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!((first.what, other.what), (1, 2));
        assert!(first < other);
    }

    #[test]
    fn a_file_tells_texts_apart() {
        let mut labels = Labels::default();
        let [a, b] = ["liba.so", "libb.so"].map(|file| {
            let what = file.to_owned();
            labels.intern(file, |text| text.push_str("run"), || what)
        });
        assert_eq!((a.text(), b.text()), ("run", "run"));
        assert_eq!((&*a.what, &*b.what), ("liba.so", "libb.so"));
        assert!(a != b);
    }

    /// A program that makes functions by the thousand does not take lancet's memory.
    #[test]
    fn what_there_is_no_room_for_is_one() {
        let mut labels = Labels::default();
        let long = "x".repeat(1 << 20);
        let met: Vec<_> = (0..100)
            .map(|number| {
                let write = |text: &mut String| *text += &format!("{number}{long}");
                labels.intern("", write, || number)
            })
            .collect();
        let others = met.iter().filter(|one| one.text() == OTHERS).count();
        assert!((36..=38).contains(&others), "{others}");
        assert!(labels.bytes <= MOST);
        let known = labels.intern("", |text| *text += &format!("7{long}"), || 0);
        assert_eq!(known.what, 7, "what was known is still told apart");
    }
}
