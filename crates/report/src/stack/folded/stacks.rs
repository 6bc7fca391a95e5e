//! Stacks that were seen, and how often each; and what threads did where. Used by `folded`, `format` and others here,
//! and by crate `lancet`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;

use frames::labels::Labels;
use frames::live::activity::Lock;
use frames::live::loaded::Modules;
use frames::live::open::Look;
use frames::live::scripts::Script;
use frames::live::stack::Stack;
use frames::live::unwind::End;
use frames::profile::MISSING;
use frames::profile::saved::Process;

use super::places::{RowKey, Seen, Spot, Waited, Where, locked};
use crate::forms::stacks::{self, Frame};
use crate::stack::states::place;

/// Descriptors and peers that are told apart at one place.
const MOST_PEERS: usize = 100;

/// Locks that are told apart, and lines at each. Every wait for a condition makes a new one in Python.
const MOST_LOCKS: usize = 10_000;

/// The frames of a stack, the outermost first.
type Frames = [Rc<Where>];

/// How often each stack was seen; frames from the outermost to the innermost.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    counts: BTreeMap<Rc<Frames>, u64>,
    /// The stack that each thread had at the last look, by process and thread.
    last: HashMap<i32, HashMap<i32, Rc<Frames>>>,
    labels: Labels<Spot>,
    pub(super) rows: BTreeMap<RowKey, Seen>,
    /// By process and lock.
    pub(super) locks: BTreeMap<(i32, Lock), Waited>,
    /// How often all processes were looked at.
    pub looks: u64,
    /// The processes that were looked at.
    pub processes: Vec<Process>,
}

impl Stacks {
    /// Adds what one look at a process with these modules saw. Looks at a process are given in their order.
    pub fn add_look(&mut self, pid: i32, modules: &Modules, look: &Look) {
        let stacks = look.stacks.as_slice();
        let before = self.last.remove(&pid).unwrap_or_default();
        let mut now = HashMap::new();
        for (number, stack) in stacks.iter().enumerate() {
            let tid = stack.thread.tid;
            let known = before.get(&tid).filter(|_| look.kept.contains(&tid));
            let frames = match known.filter(|_| stack.parked.is_none()) {
                Some(frames) => Rc::clone(frames),
                None => frames(modules, stack, &mut self.labels).into(),
            };
            if stack.parked.is_none() {
                now.insert(tid, Rc::clone(&frames));
            }
            *self.counts.entry(frames).or_default() += 1;
            if let Some((row, on)) = RowKey::of(modules, stacks, number, &mut self.labels) {
                if let Some((lock, held)) = locked(stacks, number) {
                    self.add_wait((pid, lock), held, &row.line);
                }
                self.add_row(row, on);
            }
        }
        self.last.insert(pid, now);
    }

    pub(super) fn add_wait(&mut self, lock: (i32, Lock), held: bool, line: &Rc<Where>) {
        if self.locks.len() >= MOST_LOCKS && !self.locks.contains_key(&lock) {
            return;
        }
        let waited = self.locks.entry(lock).or_default();
        waited.count += 1;
        waited.held |= held;
        if waited.at.len() < MOST_LOCKS || waited.at.contains_key(line) {
            *waited.at.entry(Rc::clone(line)).or_default() += 1;
        }
    }

    /// Returns the locks that some thread was seen to have, those first for which was waited most.
    pub(super) fn held_locks(&self) -> Vec<(i32, Lock, &Waited)> {
        let locks = self.locks.iter().filter(|(_, waited)| waited.held);
        let mut locks: Vec<_> = locks
            .map(|((pid, lock), waited)| (*pid, *lock, waited))
            .collect();
        locks.sort_by_key(|(.., waited)| std::cmp::Reverse(waited.count));
        locks
    }

    pub(super) fn add_row(&mut self, row: RowKey, on: String) {
        let seen = self.rows.entry(row).or_default();
        seen.count += 1;
        // The peers of a server are many, and the first ones say enough.
        if seen.on.len() < MOST_PEERS || seen.on.contains_key(&on) {
            *seen.on.entry(on).or_default() += 1;
        }
    }
}

/// Stacks that were seen, for all forms that show stacks.
pub(super) struct Titled<'a> {
    pub stacks: &'a Stacks,
    /// What was looked at.
    pub title: &'a str,
    /// When it was looked at and for how long, as far as that is known.
    pub times: stacks::Times,
}

impl stacks::Stacks for Titled<'_> {
    fn about(&self) -> stacks::About<'_> {
        let processes = self.stacks.processes.iter();
        let mut processes = processes.map(|one| (one.pid.into(), &*one.command));
        stacks::About {
            process: stacks::Process::only(&mut processes),
            // Functions of two files may have one name.
            is_ordered: false,
            times: self.times,
            ..stacks::About::titled(self.title, stacks::SAMPLES, 0)
        }
    }

    fn each(&self, take: &mut dyn FnMut(&stacks::Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        self.stacks.counts.iter().try_for_each(|(stack, count)| {
            let frames = stack.iter().map(|frame| Frame {
                text: frame.text().into(),
                place: frame.what.place.clone(),
            });
            take(&stacks::Stack {
                frames: frames.collect(),
                weights: vec![*count],
                ..stacks::Stack::default()
            })
        })
    }
}

/// Returns the names of a stack's frames, the outermost first.
///
/// Each native frame is followed by the script frames it runs. Script frames of which the native frame is not known
/// stand innermost where the walk reached the stack's end, and outermost where it did not. A parked stack is named
/// by its kind alone: a thousand fibers that wait at one place are one stack, seen a thousand times.
fn frames(modules: &Modules, stack: &Stack, labels: &mut Labels<Spot>) -> Vec<Rc<Where>> {
    let first = match &stack.parked {
        None => format!("thread {} {}", stack.thread.tid, stack.thread.name),
        Some(one) => format!("{}, parked", one.kind),
    };
    let mut frames = vec![native("", &first, labels)];
    if stack.is_broken {
        frames.push(native("", MISSING, labels));
    }
    let unplaced = stack.unplaced.iter().rev();
    if stack.end != End::Whole {
        frames.extend(unplaced.clone().map(|one| script(one, labels)));
    }
    for line in stack.lines.iter().rev() {
        let loaded = line.module.and_then(|module| modules.get(module));
        let name = line.function.as_ref();
        let name = name.and_then(|function| function.name.as_deref());
        let file = loaded.map_or("", |loaded| loaded.name());
        frames.push(match (name, loaded, &line.function) {
            (Some(name), ..) => native(file, name, labels),
            (None, Some(loaded), Some(function)) => {
                let offset = function.start.wrapping_sub(loaded.bias);
                native(file, &format!("{file}+{offset:#x}"), labels)
            }
            _ => native(file, "?", labels),
        });
        let scripts = line.scripts.iter().rev();
        frames.extend(scripts.map(|one| script(one, labels)));
    }
    if stack.end == End::Whole {
        frames.extend(unplaced.map(|one| script(one, labels)));
    }
    frames
}

/// A function of a file of native code, or what else has a name.
fn native(file: &str, name: &str, labels: &mut Labels<Spot>) -> Rc<Where> {
    let make = || Spot {
        place: answer::place::Place::new(file, 0, name).owned(),
        native: true,
    };
    labels.intern(file, |text| text.push_str(name), make)
}

fn script(script: &Script, labels: &mut Labels<Spot>) -> Rc<Where> {
    let write = |text: &mut String| {
        text.push_str(&script.name);
        if !script.path.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, " ({}{})", script.path, script.colon_line());
        }
    };
    labels.intern("", write, || Spot {
        place: place(script).owned(),
        native: false,
    })
}

#[cfg(test)]
pub mod tests {
    use std::io::Write;

    use super::*;
    use crate::forms::stacks::{FORMS, Stacks as _};

    pub fn written(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Functions of two files that have one name are one frame where a stack is nothing but texts, and two where there are files.
    #[test]
    fn frames_of_one_text_have_their_own_files() {
        let mut stacks = Stacks::default();
        for file in ["liba.so", "libb.so"] {
            let frame = native(file, "run", &mut stacks.labels);
            *stacks.counts.entry([frame].into()).or_default() += 1;
        }
        let titled = Titled {
            stacks: &stacks,
            title: "t",
            times: stacks::Times::default(),
        };
        assert_eq!(written(|out| FORMS[0].write(&titled, out)), "run 2\n");
        let mut places = Vec::new();
        let taken = titled.each(&mut |stack| {
            places.push(stack.frames[0].place.path.as_deref().map(str::to_owned));
            Ok(())
        });
        taken.unwrap();
        assert_eq!(
            places,
            [Some("liba.so".to_owned()), Some("libb.so".to_owned())]
        );
    }
}
