//! Stacks that were seen, and how often each; and what threads did where.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use frames::live::loaded::Modules;
use frames::live::open::Look;
use frames::live::scripts::Script;
use frames::live::stack::Stack;
use frames::live::ties::Lock;
use frames::live::unwind::End;
use frames::profile::saved::Process;

use super::places::{Place, Seen, Waited, Where, locked};

/// Descriptors and peers that are told apart at one place.
const MOST_PEERS: usize = 100;

/// Locks that are told apart, and lines at each. Every wait for a condition makes a new one in Python.
const MOST_LOCKS: usize = 10_000;

/// How often each stack was seen; frames from the outermost to the innermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    pub(super) counts: BTreeMap<Rc<[String]>, u64>,
    /// The stack that each thread had at the last look, by process and thread.
    last: HashMap<i32, HashMap<i32, Rc<[String]>>>,
    pub(super) places: BTreeMap<Place, Seen>,
    /// By process and lock.
    pub(super) locks: BTreeMap<(i32, Lock), Waited>,
    /// How often all processes were looked at.
    pub looks: u64,
    /// The processes that were looked at.
    pub processes: Vec<Process>,
}

impl Stacks {
    /// Adds so many sightings of a stack, given by the names of its frames, the outermost first.
    pub fn add(&mut self, stack: Vec<String>, count: u64) {
        *self.counts.entry(stack.into()).or_default() += count;
    }

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
                None => frames(modules, stack).into(),
            };
            if stack.parked.is_none() {
                now.insert(tid, Rc::clone(&frames));
            }
            *self.counts.entry(frames).or_default() += 1;
            if let Some((place, on)) = Place::of(modules, stacks, number) {
                if let Some((lock, held)) = locked(stacks, number) {
                    self.add_wait((pid, lock), held, &place.line);
                }
                self.add_place(place, on);
            }
        }
        self.last.insert(pid, now);
    }

    pub(super) fn add_wait(&mut self, lock: (i32, Lock), held: bool, line: &Where) {
        if self.locks.len() >= MOST_LOCKS && !self.locks.contains_key(&lock) {
            return;
        }
        let waited = self.locks.entry(lock).or_default();
        waited.count += 1;
        waited.held |= held;
        if waited.at.len() < MOST_LOCKS || waited.at.contains_key(line) {
            *waited.at.entry(line.clone()).or_default() += 1;
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

    pub(super) fn add_place(&mut self, place: Place, on: String) {
        let seen = self.places.entry(place).or_default();
        seen.count += 1;
        // The peers of a server are many, and the first ones say enough.
        if seen.on.len() < MOST_PEERS || seen.on.contains_key(&on) {
            *seen.on.entry(on).or_default() += 1;
        }
    }

    /// The number of sightings of all stacks together.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// Returns the names of a stack's frames, the outermost first.
///
/// Each native frame is followed by the script frames it runs. Script frames of which the native frame is not known
/// stand innermost where the walk reached the stack's end, and outermost where it did not. A parked stack is named
/// by its kind alone: a thousand fibers that wait at one place are one stack, seen a thousand times.
fn frames(modules: &Modules, stack: &Stack) -> Vec<String> {
    let mut frames = vec![match &stack.parked {
        None => format!("thread {} {}", stack.thread.tid, stack.thread.name),
        Some(one) => format!("{}, parked", one.kind),
    }];
    let unplaced = stack.unplaced.iter().rev().map(script);
    if stack.end != End::Whole {
        frames.extend(unplaced.clone());
    }
    for line in stack.lines.iter().rev() {
        let loaded = line.module.and_then(|module| modules.get(module));
        let name = line
            .function
            .as_ref()
            .and_then(|function| function.name.clone());
        frames.push(match (name, loaded, &line.function) {
            (Some(name), ..) => name,
            (None, Some(loaded), Some(function)) => {
                format!(
                    "{}+{:#x}",
                    loaded.name(),
                    function.start.wrapping_sub(loaded.bias)
                )
            }
            _ => "?".to_owned(),
        });
        frames.extend(line.scripts.iter().rev().map(script));
    }
    if stack.end == End::Whole {
        frames.extend(unplaced);
    }
    frames
}

fn script(script: &Script) -> String {
    match script.path.as_str() {
        "" => script.name.clone(),
        path => format!("{} ({path}:{})", script.name, script.line),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::{self, Write};

    pub fn seen() -> Stacks {
        let mut stacks = Stacks::default();
        for stack in [
            vec!["main", "run", "a<b>"],
            vec!["main", "run", "a<b>"],
            vec!["main", "x;y"],
        ] {
            stacks.add(stack.into_iter().map(str::to_owned).collect(), 1);
        }
        stacks
    }

    pub fn written(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
