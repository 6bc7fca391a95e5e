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
//! Lines that are all too small or too large, or all the function's first, so never prove anything, and contradict where the name stands
//! in another line of the function and not in the frame's: each function of which that is so outweighs several proofs, and so does one
//! at whose first line the text does not define it. A frame of which neither can be said (a callback, an operator, a recursion
//! whose own head names it) is no evidence. Innermost frames call nothing that is told, so their lines are no evidence either.
//!
//! How much of each is needed was chosen by a simulation with the text of Python's own library: right lines are believed, and of lines that
//! are wrong by one number in all functions none are.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use process::sources::{Lines, MOST_FILES, Text};

/// Functions that must have called another one at a line that names it; a single one might by chance.
const NEEDED: usize = 2;
/// How many proofs a contradiction outweighs: a file that was changed since it was loaded has many, a callback under another name one.
const AGAINST: usize = 8;
/// Calls, and functions, that are looked at, at most.
const MOST: usize = 256;
/// Lines behind the one of a call that are taken for ones of the same function.
const BEHIND: u32 = 7;
/// Lines before it, at most.
const BEFORE: u32 = 1 << 10;
/// Lines that decorators may have, before the function that they are of.
const DECORATORS: u32 = 64;

/// The text of files as a process sees them.
pub trait Sources {
    /// Returns the text of the file at this path of the process's.
    fn text(&self, path: &str) -> Text;
}

/// No text: of a core file it is not known what the files were.
#[derive(Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn text(&self, _path: &str) -> Text {
        Text::NotLookedAt
    }
}

impl Sources for process::sources::Sources {
    fn text(&self, path: &str) -> Text {
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
    /// The word that source text defines its function by, in its first line; `None` where it has none, as a script or a block.
    pub defined: Option<String>,
    /// Whether the VM has two names for its code that differ and fit together.
    pub has_two_names: bool,
}

/// What lines are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Functions of which a line was proven.
    pub proven: usize,
    /// Functions whose text contradicts.
    pub against: usize,
    /// How many would have to be proven.
    pub needed: usize,
    /// Whether the text of any file was read.
    pub is_any_text: bool,
}

impl Verdict {
    /// Whether all lines are to be believed.
    pub fn is_enough(&self) -> bool {
        self.proven >= self.needed
    }
}

/// Evidence that is gathered from stacks.
pub(crate) struct Evidence<'s> {
    sources: &'s dyn Sources,
    /// Whether a call is always written with a parenthesis behind the name, so that a line without one speaks of the function only.
    has_parentheses: bool,
    /// Calls that were looked at: of a recursion there are many.
    known: BTreeSet<(u64, u32, String)>,
    /// Functions that were looked at, and whether their first line or their names were proven.
    functions: BTreeMap<u64, bool>,
    /// Functions with a line that was proven.
    proven: BTreeSet<u64>,
    /// Functions that text contradicts.
    against: BTreeSet<u64>,
    /// The files that frames name.
    files: BTreeMap<String, Text>,
}

impl<'s> Evidence<'s> {
    /// None yet. `has_parentheses`: a call has one behind the name in this language.
    pub fn of(sources: &'s dyn Sources, has_parentheses: bool) -> Self {
        Evidence {
            sources,
            has_parentheses,
            known: BTreeSet::new(),
            functions: BTreeMap::new(),
            proven: BTreeSet::new(),
            against: BTreeSet::new(),
            files: BTreeMap::new(),
        }
    }

    /// Adds the frames of a thread, innermost first.
    pub fn add(&mut self, stack: &[Witness]) {
        for frame in stack {
            if self.functions.len() < MOST && !self.functions.contains_key(&frame.code) {
                let is_defined = self.definition(frame);
                self.functions
                    .insert(frame.code, is_defined || frame.has_two_names);
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

    /// Returns the lines of a file. What the VM names its own code by is not looked for.
    fn text(&mut self, path: &str) -> Option<Rc<Lines>> {
        if path.starts_with('<') {
            return None;
        }
        if !self.files.contains_key(path) && self.files.len() < MOST_FILES {
            self.files.insert(path.to_owned(), self.sources.text(path));
        }
        match self.files.get(path)? {
            Text::There(lines) => Some(Rc::clone(lines)),
            Text::NotThere | Text::NotLookedAt => None,
        }
    }

    /// Looks at the first line of a function. Returns whether the text defines it there.
    fn definition(&mut self, frame: &Witness) -> bool {
        let (Some(text), Some(word)) = (self.text(&frame.path), &frame.defined) else {
            return false;
        };
        let line = |number| text.get(number).map(<[u8]>::trim_ascii_start);
        let mut at = frame.first;
        if line(at).is_some_and(|line| line.starts_with(b"@")) {
            let behind = at + 1..at.saturating_add(DECORATORS);
            let mut behind = behind.filter(|at| line(*at).is_some_and(begins_definition));
            at = behind.next().unwrap_or(0);
        }
        match line(at) {
            Some(line) if DEFINING.iter().any(|defining| names(line, defining)) => {
                let is_named = names(line, word);
                // The name may be put together in a text that is evaluated: `def #{name}`.
                if !is_named && !line.windows(2).any(|two| two == b"#{") {
                    self.against.insert(frame.code);
                }
                is_named
            }
            _ => {
                self.against.insert(frame.code);
                false
            }
        }
    }

    /// Looks at a call of a function that is called by this word.
    fn call(&mut self, caller: &Witness, word: &str) {
        let Some(text) = self.text(&caller.path) else {
            return;
        };
        let named = |line: u32| text.get(line).is_some_and(|text| names(text, word));
        let defined = |line: u32| text.get(line).is_some_and(defines);
        let Witness { line, first, .. } = *caller;
        let beside = [line.saturating_sub(1), line.saturating_add(1)];
        let is_beside = |is: &dyn Fn(u32) -> bool| beside.into_iter().any(is);
        if named(line) {
            if !defined(line) && line != first && !is_beside(&|at| named(at) && !defined(at)) {
                self.proven.insert(caller.code);
            }
            return;
        }
        let open = format!("{word}(");
        let calls = |line: u32| {
            let text = text.get(line).filter(|text| !defines(text));
            text.is_some_and(|text| match self.has_parentheses {
                true => names(text, &open),
                false => names(text, word),
            })
        };
        let begin = first.max(line.saturating_sub(BEFORE)).saturating_add(1);
        let mut function = begin..=first.max(line).saturating_add(BEHIND);
        let is_missing = line == 0 || text.get(line).is_none();
        if is_missing || is_beside(&calls) || function.any(calls) {
            self.against.insert(caller.code);
        }
    }

    /// Returns what lines are held against.
    pub fn lines(&self) -> Verdict {
        let against = self.against.len();
        let mut texts = self.files.values();
        Verdict {
            proven: self.proven.difference(&self.against).count(),
            against,
            needed: NEEDED.max(AGAINST * against + 1),
            is_any_text: texts.any(|text| matches!(text, Text::There(_))),
        }
    }

    /// Returns whether most of the files that frames name are there, of those that were looked at.
    pub fn are_files_there(&self) -> bool {
        let count = |is: fn(&Text) -> bool| self.files.values().filter(|text| is(text)).count();
        let missing = count(|text| matches!(text, Text::NotThere));
        missing == 0 || missing <= count(|text| matches!(text, Text::There(_)))
    }

    /// Returns of how many functions more is known than that they fit together: the line on which their text begins, or a second name.
    pub fn functions(&self) -> usize {
        self.functions.values().filter(|is| **is).count()
    }
}

/// Words that define what has a name.
const DEFINING: [&str; 2] = ["def", "class"];

/// Whether a line begins with what is no call although it may name a function: its definition, a decorator of another one, or a comment.
fn defines(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    // Ruby's variables begin as Python's decorators.
    let is_decorator = line.starts_with(b"@") && !line.contains(&b'=');
    is_decorator || line.starts_with(b"#") || begins_definition(line)
}

fn begins_definition(line: &[u8]) -> bool {
    let words = line.split(u8::is_ascii_whitespace);
    let first = words.into_iter().find(|word| *word != b"async");
    first.is_some_and(|first| DEFINING.iter().any(|word| word.as_bytes() == first))
}

/// Whether a line has this word, as a whole one. It may end with a parenthesis.
fn names(line: &[u8], word: &str) -> bool {
    let word = word.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let ends = word.last().is_some_and(is_part);
    let at = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| line.get(before));
        let behind = line.get(at + word.len());
        !(before.is_some_and(is_part) || ends && behind.is_some_and(is_part))
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
        fn text(&self, path: &str) -> Text {
            match path {
                "/srv/app.py" => Text::There(Rc::new(Lines::of(self.0.into()))),
                "/srv/gone.py" => Text::NotThere,
                _ => Text::NotLookedAt,
            }
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

    /// The stack with first lines and lines as a wrong reading has them.
    fn stack(wrong: impl Fn(u32, u32) -> (u32, u32)) -> Vec<Witness> {
        let frame = |(number, (word, first, line)): (usize, (&str, u32, u32))| {
            let code = 0x1000 + number as u64 * u64::from(first);
            let word = Some(word.to_owned()).filter(|word| !word.is_empty());
            let (first, line) = wrong(first, line);
            Witness {
                code,
                path: "/srv/app.py".to_owned(),
                first,
                line,
                defined: word.clone().filter(|word| word != "callback"),
                word,
                has_two_names: false,
            }
        };
        STACK.into_iter().enumerate().map(frame).collect()
    }

    fn verdict(text: &'static str, wrong: impl Fn(u32, u32) -> (u32, u32)) -> Verdict {
        let sources = Program(text);
        let mut evidence = Evidence::of(&sources, true);
        evidence.add(&stack(wrong));
        evidence.lines()
    }

    #[test]
    fn right_lines_are_proven_and_wrong_ones_are_not() {
        let right = verdict(PROGRAM, |first, line| (first, line));
        assert!(right.is_enough(), "{right:?}");
        assert_eq!((right.proven, right.against), (4, 0));
        let reading = |by: i64| move |first, line: u32| (first, (i64::from(line) + by) as u32);
        for by in [-8, -3, -2, -1, 1, 2, 3, 8, 1000] {
            let wrong = verdict(PROGRAM, reading(by));
            assert!(wrong.against > 0 && !wrong.is_enough(), "{by}: {wrong:?}");
        }
        let first = verdict(PROGRAM, |first, _| (first, first));
        assert!(!first.is_enough(), "{first:?}");
        let none = verdict(PROGRAM, |first, _| (first, 0));
        assert!(!none.is_enough(), "{none:?}");
    }

    /// As an entry of the table that is read wrongly, which only some functions have.
    #[test]
    fn lines_that_are_wrong_in_a_part_of_the_functions_are_not_believed() {
        for part in [9, 15] {
            let in_part = |first, line| (first, line + 3 * u32::from(first == part));
            let wrong = verdict(PROGRAM, in_part);
            assert_eq!((wrong.against, wrong.is_enough()), (1, false), "{wrong:?}");
        }
    }

    #[test]
    fn first_lines_are_held_against_the_text() {
        for by in [-2, -1, 1, 2, 8] {
            let wrong = verdict(PROGRAM, |first, line| {
                ((i64::from(first) + by) as u32, line)
            });
            assert!(wrong.against >= 3 && !wrong.is_enough(), "{by}: {wrong:?}");
        }
    }

    #[test]
    fn a_file_that_was_changed_since_contradicts() {
        let changed = Box::leak(format!("import sys\n{PROGRAM}").into_boxed_str());
        assert!(!verdict(changed, |first, line| (first, line)).is_enough());
    }

    /// Two decorators of the same make: the inner wrapper is called by another name, below the line that defines it.
    #[test]
    fn a_definition_is_no_call() {
        const WRAPPED: &str = "\
def deco(f):
    @functools.wraps(f)
    def wrapper(*a):
        return f(*a)
    return wrapper

@deco
@deco
def work():
    time.sleep(1)
";
        let sources = Program(WRAPPED);
        let mut evidence = Evidence::of(&sources, true);
        let frame = |code, name: &str, first, line| Witness {
            code,
            path: "/srv/app.py".to_owned(),
            first,
            line,
            word: Some(name.to_owned()),
            defined: Some(name.to_owned()),
            has_two_names: true,
        };
        evidence.add(&[
            frame(1, "work", 7, 10),
            frame(2, "wrapper", 2, 4),
            frame(3, "wrapper", 2, 4),
        ]);
        let verdict = evidence.lines();
        assert_eq!((verdict.proven, verdict.against), (0, 0), "{verdict:?}");
        assert_eq!(evidence.functions(), 3);
    }

    #[test]
    fn one_call_alone_is_not_enough() {
        let sources = Program(PROGRAM);
        let mut evidence = Evidence::of(&sources, true);
        evidence.add(&stack(|first, line| (first, line))[4..]);
        let verdict = evidence.lines();
        assert_eq!((verdict.proven, verdict.needed), (1, 2));
        assert!(!verdict.is_enough() && verdict.is_any_text);
    }

    /// Only a file that is known not to be there speaks against what names it.
    #[test]
    fn what_was_not_looked_at_is_not_missing() {
        let sources = Program(PROGRAM);
        let named = |path: &str| {
            let mut frames = stack(|first, line| (first, line));
            frames
                .iter_mut()
                .for_each(|frame| frame.path = path.to_owned());
            let mut evidence = Evidence::of(&sources, true);
            evidence.add(&frames);
            (evidence.are_files_there(), evidence.lines())
        };
        let (is_there, lines) = named("/srv/app.zip/app.py");
        assert!(is_there && !lines.is_any_text && !lines.is_enough());
        assert!(!named("/srv/gone.py").0);
        assert!(named("<string>").0);
    }

    #[test]
    fn a_name_is_a_whole_word() {
        assert!(names(b"    self.run(1)", "run"));
        assert!(!names(b"    self.rerun(1)", "run"));
        assert!(!names(b"    self.run_all(1)", "run"));
        assert!(names(b"run", "run"));
        assert!(names(b"run(x)", "run("));
        assert!(!names(b"return run", "run("));
        assert!(!names(b"", "run"));
    }
}
