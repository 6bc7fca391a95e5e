//! What shows that the frames of a VM without a table are read right: the source text of its scripts.
//!
//! A layout that was derived is held against the process by crate `vm`. What no structure can contradict are the lines: a table of lines
//! from which the wrong ones are read looks like a right one. But the line at which a frame has called another function mostly names
//! that function, and the lines around it do not:
//!
//! ```text
//!   11   def run(self):              frame of `run`, at line 13      ─▶  proven: 13 names `total`, 11, 12 and 14 do not
//!   12       self.items = items
//!   13       return total(items)     frame of `total`, called by it
//! ```
//!
//! Lines that are all too small or too large by one, or all the function's first, so never prove anything, and contradict where the name
//! stands in such a line and not in the frame's. A frame of which neither can be said (a callback, an operator, a recursion whose own
//! head names it) is no evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Functions that must have called another one at a line that names it; a single one might by chance.
pub(crate) const NEEDED: usize = 2;
/// How many proofs a contradiction outweighs: a file that was changed since it was loaded has many, a callback under another name one.
const AGAINST: usize = 4;
/// Calls that are looked at, at most.
const MOST: usize = 256;

/// The text of files as a process sees them.
pub trait Sources {
    /// Returns the text of the file at this path of the process's; `None` if it has none that may be read.
    fn text(&self, path: &str) -> Option<Rc<[u8]>>;
}

/// No text: of a core file it is not known what the files were.
#[derive(Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn text(&self, _path: &str) -> Option<Rc<[u8]>> {
        None
    }
}

impl Sources for process::sources::Sources {
    fn text(&self, path: &str) -> Option<Rc<[u8]>> {
        process::sources::Sources::text(self, path)
    }
}

/// A frame whose place is to be proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Witness {
    /// The address of its code.
    pub code: u64,
    /// The path of its file.
    pub path: String,
    /// The line on which its code begins.
    pub first: u32,
    /// The line that it is at.
    pub line: u32,
    /// The word by which source text calls its function; `None` where it is called by none.
    pub word: Option<String>,
}

/// Evidence that is gathered from stacks.
pub(crate) struct Evidence<'s> {
    sources: &'s dyn Sources,
    /// Calls that were looked at: of a recursion there are many.
    known: BTreeSet<(u64, u32, String)>,
    /// Functions with a line that was proven.
    proven: BTreeSet<u64>,
    against: usize,
    /// The files that frames name, and whether there is such a file, or the VM names its own code so.
    files: BTreeMap<String, bool>,
}

impl<'s> Evidence<'s> {
    /// None yet.
    pub fn of(sources: &'s dyn Sources) -> Self {
        Evidence {
            sources,
            known: BTreeSet::new(),
            proven: BTreeSet::new(),
            against: 0,
            files: BTreeMap::new(),
        }
    }

    /// Adds the frames of a thread, innermost first.
    pub fn add(&mut self, stack: &[Witness]) {
        for frame in stack {
            if !self.files.contains_key(&frame.path) && self.files.len() < MOST {
                let is_there = frame.path.starts_with('<') || self.text(&frame.path).is_some();
                self.files.insert(frame.path.clone(), is_there);
            }
        }
        for pair in stack.windows(2) {
            let [callee, caller] = pair else { continue };
            let Some(word) = &callee.word else { continue };
            let call = (caller.code, caller.line, word.clone());
            if self.known.len() < MOST && self.known.insert(call) {
                self.call(caller, word);
            }
        }
    }

    fn text(&self, path: &str) -> Option<Rc<[u8]>> {
        self.sources.text(path)
    }

    /// Looks at a call of a function that is called by this word.
    fn call(&mut self, caller: &Witness, word: &str) {
        let Some(text) = self.text(&caller.path) else {
            return;
        };
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let named = |line: u32| {
            let at = (line as usize).checked_sub(1);
            let line = at.and_then(|at| lines.get(at));
            line.is_some_and(|line| names(line, word))
        };
        let line = caller.line;
        let others = [line.saturating_sub(1), line.saturating_add(1), caller.first];
        let elsewhere = others
            .into_iter()
            .any(|other| other != line && named(other));
        match (named(line), elsewhere) {
            (true, false) if line != caller.first => drop(self.proven.insert(caller.code)),
            (false, true) => self.against += 1,
            _ if line == 0 || line as usize > lines.len() => self.against += 1,
            _ => {}
        }
    }

    /// Returns in how many functions a line was proven, if that is enough to believe all lines; else how many would be.
    pub fn lines(&self) -> Result<usize, usize> {
        let needed = NEEDED.max(AGAINST * self.against + 1);
        match self.proven.len() {
            proven if proven >= needed => Ok(proven),
            proven => Err(proven),
        }
    }

    /// Returns whether most of the files that frames name are there.
    pub fn are_files_there(&self) -> bool {
        let there = self.files.values().filter(|is_there| **is_there).count();
        there > 0 && there * 2 >= self.files.len()
    }
}

/// Whether a line has this word, as a whole one.
fn names(line: &[u8], word: &str) -> bool {
    let word = word.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let at = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| line.get(before));
        let behind = line.get(at + word.len());
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    };
    let mut places = line.windows(word.len().max(1)).enumerate();
    places.any(|(place, found)| found == word && at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program: `<module>` calls `main`, `main` calls `work`, `work` calls `add`, which recurses, and `add` calls a callback.
    const PROGRAM: &str = "\
import time

def add(n, then):
    if n:
        return add(n - 1, then)
    print('added')
    return then()

def work(items):
    total = 0
    for item in items:
        total += add(item, time)
    return total

def main(count):
    started = 1
    work(range(count))
    return started

if True:
    count = 5
    main(count)
";

    struct Program(&'static str);

    impl Sources for Program {
        fn text(&self, path: &str) -> Option<Rc<[u8]>> {
            (path == "/srv/app.py").then(|| self.0.as_bytes().into())
        }
    }

    /// The stack of the program, innermost first: name, first line, line.
    const STACK: [(&str, u32, u32); 6] = [
        ("callback", 40, 41),
        ("add", 3, 7),
        ("add", 3, 5),
        ("work", 9, 12),
        ("main", 15, 17),
        ("", 1, 22),
    ];

    /// The stack with lines as a wrong reading has them.
    fn stack(wrong: impl Fn(u32, u32) -> u32) -> Vec<Witness> {
        let frame = |(number, (word, first, line)): (usize, (&str, u32, u32))| Witness {
            code: 0x1000 + number as u64 * u64::from(first),
            path: "/srv/app.py".to_owned(),
            first,
            line: wrong(first, line),
            word: Some(word.to_owned()).filter(|word| !word.is_empty()),
        };
        STACK.into_iter().enumerate().map(frame).collect()
    }

    fn lines(text: &'static str, wrong: impl Fn(u32, u32) -> u32) -> Result<usize, usize> {
        let sources = Program(text);
        let mut evidence = Evidence::of(&sources);
        evidence.add(&stack(wrong));
        evidence.lines()
    }

    #[test]
    fn right_lines_are_proven_and_wrong_ones_are_not() {
        assert_eq!(lines(PROGRAM, |_, line| line), Ok(3));
        assert_eq!(lines(PROGRAM, |_, line| line - 1), Err(0), "too small");
        assert_eq!(lines(PROGRAM, |_, line| line + 1), Err(0), "too large");
        assert_eq!(lines(PROGRAM, |first, _| first), Err(0), "always the first");
        assert_eq!(lines(PROGRAM, |_, line| line + 8), Err(0), "by eight");
        assert_eq!(lines(PROGRAM, |_, _| 0), Err(0), "none");
        assert_eq!(
            lines(PROGRAM, |_, line| line + 1000),
            Err(0),
            "behind the end"
        );
    }

    #[test]
    fn a_file_that_was_changed_since_contradicts() {
        let changed = Box::leak(format!("import sys\n{PROGRAM}").into_boxed_str());
        assert_eq!(lines(changed, |_, line| line), Err(0));
    }

    #[test]
    fn one_call_alone_is_not_enough() {
        let sources = Program(PROGRAM);
        let mut evidence = Evidence::of(&sources);
        evidence.add(&stack(|_, line| line)[4..]);
        assert_eq!(evidence.lines(), Err(1));
        assert!(evidence.are_files_there());
        let mut nowhere = Evidence::of(&NoSources);
        nowhere.add(&stack(|_, line| line));
        assert_eq!(nowhere.lines(), Err(0));
        assert!(!nowhere.are_files_there());
    }

    #[test]
    fn a_name_is_a_whole_word() {
        assert!(names(b"    self.run(1)", "run"));
        assert!(!names(b"    self.rerun(1)", "run"));
        assert!(!names(b"    self.run_all(1)", "run"));
        assert!(names(b"run", "run"));
        assert!(!names(b"", "run"));
    }
}
