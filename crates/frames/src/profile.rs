//! Where threads run, by many looks at their stacks: which function, and called from where. Used by the crates `report`
//! and `lancet`.
//!
//! A look sees each thread at one moment. Of a thread that is on a processor then the stack is a sample: looked at often enough, the share of
//! samples with a function in them is its share of the processor time. A thread that waits for a processor is none: it is where it woke up as
//! a rule, in a call that takes next to no time. What sleeps is not sampled either; where it waits is what `lancet stack --for` answers.
//!
//! A sample has the script's frames, outermost first, and beyond them the native function that the innermost of them has called, if it has:
//! of `Array#pack` it is the function of libruby that works. A thread that runs no script has all its native frames.

pub mod difference;
mod grouped;
pub mod saved;

pub use grouped::By;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use process::processors::are_several;
use process::snapshot::Activity;

use crate::live::loaded::Modules;
use crate::live::open::{Live, Look};
use crate::live::scripts::Script;
use crate::live::stack::{Line, Stack};
use crate::live::unwind::End;

/// Frames of all different stacks together, beyond which of a new stack only the innermost frame is counted (4 MiB).
const MOST_FRAMES: usize = 1_000_000;

/// Different frames, and bytes of their names and paths, that are told apart; samples in others are counted as [`OTHERS`].
const MOST_KINDS: usize = 100_000;
const MOST_BYTES: usize = 32 << 20;

/// The innermost frame of a sample for which there is no more room.
const OTHERS: &str = "(others: too many different functions)";

/// Frames that are kept of a stack, the innermost ones.
const DEEPEST: usize = 1_000;

/// A function, by what tells it apart from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// With the class that has it, where that is known.
    pub name: String,
    /// The path of the script, or the name of the program or library; empty for a function of C that the language shows among its own.
    pub file: String,
    /// Whether it is native code.
    pub native: bool,
}

/// A frame of a sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function that this is a call of.
    pub function: Function,
    /// The line of the script that runs, from 1; 0 for native code.
    pub line: u32,
    /// Whether its file belongs to a library or to the VM, not to the program.
    pub library: bool,
}

/// The samples of many looks.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// How often all processes were looked at.
    pub rounds: u64,
    /// How many samples there are: how often a thread was seen on a processor.
    pub samples: u64,
    /// Samples of which it is not known whether the thread was on a processor or waited for one.
    pub unsure: u64,
    /// How often a thread was seen that waited for a processor.
    pub queued: u64,
    /// How often a thread was seen that slept.
    pub slept: u64,
    /// Samples of which only the innermost frame was kept, because there were too many different stacks.
    pub cut: u64,
    /// What its functions are.
    by: By,
    kinds: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    /// Bytes of the names and paths in `kinds`.
    bytes: usize,
    /// By the numbers of their frames.
    stacks: HashMap<Rc<[u32]>, u64>,
    /// Frames of all `stacks`.
    frames: usize,
    /// Whether a thread can be on a processor while lancet is.
    told_apart: Option<bool>,
}

/// What the samples say of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The function that all of this is about.
    pub function: &'a Function,
    /// Whether all its frames belong to a library or to the VM.
    pub library: bool,
    /// Samples in which it was the innermost.
    pub own: u64,
    /// Samples in which it was somewhere on the stack.
    pub total: u64,
    /// The lines of it that ran, with the samples in which it was the innermost; without native code's.
    pub lines: BTreeMap<u32, u64>,
    /// The frames that called it, with the samples in which they did; of a recursion the outermost caller.
    pub callers: BTreeMap<&'a Frame, u64>,
}

impl Profile {
    /// Adds what one look at a process saw. Where lancet may run on a single processor nobody else is on it when lancet looks, so there all that
    /// want one count.
    pub fn add_look(&mut self, live: &Live, look: &Look) {
        let told_apart = *self.told_apart.get_or_insert_with(are_several);
        let interpreters = live.interpreters();
        self.queued += look.queued.len() as u64;
        for stack in look.stacks.iter().filter(|stack| stack.parked.is_none()) {
            let state = stack.state.as_ref();
            let stopped = state.is_none_or(|state| state.stopped);
            let sleeps = state.is_some_and(|state| state.wait.is_some());
            let is_kept = look.kept.contains(&stack.thread.tid);
            match stack.thread.activity {
                _ if stopped || is_kept => self.slept += 1,
                Activity::Slept => self.slept += 1,
                Activity::Queued | Activity::Unknown if sleeps => self.slept += 1,
                Activity::Queued if told_apart => self.queued += 1,
                activity => {
                    self.unsure += u64::from(activity != Activity::Ran);
                    self.add(frames(live.modules(), &interpreters, stack));
                }
            }
        }
    }

    /// Adds a sample; the outermost frame comes first.
    pub fn add(&mut self, frames: Vec<Frame>) {
        self.add_times(frames, 1);
    }

    /// Adds `times` samples with the same frames.
    fn add_times(&mut self, mut frames: Vec<Frame>, times: u64) {
        self.samples += times;
        let beyond = frames.len().saturating_sub(DEEPEST);
        frames.drain(..beyond);
        let stack: Rc<[u32]> = frames.into_iter().map(|frame| self.number(frame)).collect();
        let has_room = |profile: &Profile, stack: &Rc<[u32]>| {
            profile.stacks.contains_key(stack) || profile.frames + stack.len() <= MOST_FRAMES
        };
        let stack = match stack.last() {
            Some(innermost) if !has_room(self, &stack) => {
                self.cut += times;
                Rc::from([*innermost])
            }
            _ => stack,
        };
        let length = stack.len();
        let count = self.stacks.entry(stack).or_default();
        if *count == 0 {
            self.frames += length;
        }
        *count += times;
    }

    /// Returns the number of a frame; a new one's if there is room.
    fn number(&mut self, frame: Frame) -> u32 {
        if let Some(number) = self.numbers.get(&frame) {
            return *number;
        }
        let size = frame.function.name.len() + frame.function.file.len();
        let is_full = self.kinds.len() >= MOST_KINDS || self.bytes + size > MOST_BYTES;
        let frame = match is_full {
            true => named(OTHERS),
            false => {
                self.bytes += size;
                frame
            }
        };
        let kinds = &mut self.kinds;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            kinds.push(frame.clone());
            kinds.len() as u32 - 1
        })
    }

    /// Returns the different stacks, outermost frame first, and how often each was seen, in an order that does not change.
    pub fn stacks(&self) -> Vec<(Vec<&Frame>, u64)> {
        let mut stacks: Vec<_> = self.each_stack().collect();
        stacks.sort();
        stacks
    }

    fn each_stack(&self) -> impl Iterator<Item = (Vec<&Frame>, u64)> {
        let frames = |stack: &Rc<[u32]>| {
            stack
                .iter()
                .map(|number| &self.kinds[*number as usize])
                .collect()
        };
        self.stacks
            .iter()
            .map(move |(stack, count)| (frames(stack), *count))
    }

    /// Returns the functions, those first that were innermost most often.
    pub fn functions(&self) -> Vec<Row<'_>> {
        let mut rows: HashMap<&Function, Row> = HashMap::new();
        for (frames, count) in self.each_stack() {
            let mut seen = HashSet::new();
            for (at, frame) in frames.iter().enumerate() {
                let row = rows
                    .entry(&frame.function)
                    .or_insert_with(|| Row::of(frame));
                row.library &= frame.library;
                if seen.insert(&frame.function) {
                    row.total += count;
                    if let Some(caller) = at.checked_sub(1).and_then(|at| frames.get(at)) {
                        *row.callers.entry(caller).or_default() += count;
                    }
                }
            }
            if let Some(innermost) = frames.last()
                && let Some(row) = rows.get_mut(&innermost.function)
            {
                row.own += count;
                if innermost.line != 0 {
                    *row.lines.entry(innermost.line).or_default() += count;
                }
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse((row.own, row.total)), row.function));
        rows
    }
}

/// The function of the program itself in which most samples lie, at it or in what it calls of libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hottest {
    /// The function, at its line that has the most of these samples.
    pub frame: Frame,
    /// Its samples.
    pub samples: u64,
    /// The frame that called it in most of them, and in how many.
    pub caller: Option<(Frame, u64)>,
    /// The function that was innermost in most of them, if that is another one, and in how many.
    pub inner: Option<(Function, u64)>,
}

/// What belongs to one function of the program.
#[derive(Default)]
struct Place<'a> {
    samples: u64,
    lines: BTreeMap<&'a Frame, u64>,
    callers: BTreeMap<&'a Frame, u64>,
    inner: BTreeMap<&'a Function, u64>,
}

impl Profile {
    /// Returns the function of the program in which threads run most; where no sample has one, that of a library. `None` without samples.
    pub fn hottest(&self) -> Option<Hottest> {
        let mut places: BTreeMap<&Function, Place> = BTreeMap::new();
        for (frames, count) in self.each_stack() {
            let own = frames.iter().rposition(|frame| !frame.library);
            let Some((at, innermost)) = own.or(frames.len().checked_sub(1)).zip(frames.last())
            else {
                continue;
            };
            let place = places.entry(&frames[at].function).or_default();
            place.samples += count;
            *place.lines.entry(frames[at]).or_default() += count;
            *place.inner.entry(&innermost.function).or_default() += count;
            // A recursion is called from outside of it.
            let calls = |frame: &&&Frame| frame.function != frames[at].function;
            if let Some(caller) = frames[..at].iter().rev().find(calls) {
                *place.callers.entry(caller).or_default() += count;
            }
        }
        let (function, place) = places.into_iter().max_by_key(|(_, place)| place.samples)?;
        let inner = most(place.inner).filter(|(inner, _)| *inner != function);
        Some(Hottest {
            frame: most(place.lines)?.0.clone(),
            samples: place.samples,
            caller: most(place.callers).map(|(frame, count)| (frame.clone(), count)),
            inner: inner.map(|(function, count)| (function.clone(), count)),
        })
    }
}

impl Profile {
    /// Returns the functions that stand on some stack together with this one, itself among them.
    fn beside(&self, function: &Function) -> HashSet<&Function> {
        let stacks = self.each_stack().map(|(frames, _)| frames);
        let with = stacks.filter(|frames| frames.iter().any(|frame| frame.function == *function));
        with.flatten().map(|frame| &frame.function).collect()
    }

    /// The counts that a file has.
    fn counts(&self) -> [u64; 6] {
        [
            self.rounds,
            self.samples,
            self.unsure,
            self.queued,
            self.slept,
            self.cut,
        ]
    }

    fn counts_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.rounds,
            &mut self.samples,
            &mut self.unsure,
            &mut self.queued,
            &mut self.slept,
            &mut self.cut,
        ]
    }
}

/// Returns what was counted most often, and how often.
fn most<T>(counts: impl IntoIterator<Item = (T, u64)>) -> Option<(T, u64)> {
    counts.into_iter().max_by_key(|(_, count)| *count)
}

impl<'a> Row<'a> {
    fn of(frame: &'a Frame) -> Self {
        Row {
            function: &frame.function,
            library: frame.library,
            own: 0,
            total: 0,
            lines: BTreeMap::new(),
            callers: BTreeMap::new(),
        }
    }

    /// Returns its line that ran most often.
    pub fn line(&self) -> Option<u32> {
        let counts = self.lines.iter().map(|(line, count)| (*line, *count));
        most(counts).map(|(line, _)| line)
    }
}

/// Returns the frames of a stack as a sample has them.
fn frames(modules: &Modules, interpreters: &[usize], stack: &Stack) -> Vec<Frame> {
    let scripts: Vec<&Script> = stack.scripts().filter(|script| script.is_known()).collect();
    let of_line = |line: &Line| {
        let frame = native(modules, line);
        let is_interpreter = line
            .module
            .is_some_and(|module| interpreters.contains(&module));
        Frame {
            library: frame.library || is_interpreter,
            ..frame
        }
    };
    if scripts.is_empty() {
        let mut frames: Vec<Frame> = stack.lines.iter().rev().map(of_line).collect();
        if stack.end != End::Whole {
            frames.insert(0, named("(outer frames not found)"));
        }
        return frames;
    }
    // Frames of the VM's own code that runs the script have the script's frames with them.
    let inner = stack
        .lines
        .iter()
        .take_while(|line| line.scripts.is_empty());
    let called = inner
        .last()
        .is_some()
        .then(|| stack.lines.first())
        .flatten();
    let named = called.filter(|line| {
        let function = line.function.as_ref();
        function.is_some_and(|function| function.name.is_some())
    });
    // It is the interpreter's or an extension's: the program is its script.
    let of_library = |line: &Line| Frame {
        library: true,
        ..of_line(line)
    };
    let scripts = scripts.into_iter().rev().map(script);
    scripts.chain(named.map(of_library)).collect()
}

fn script(script: &Script) -> Frame {
    Frame {
        function: Function {
            name: script.full_name().to_owned(),
            file: script.path.clone(),
            native: false,
        },
        line: script.line,
        library: script.is_library(),
    }
}

fn native(modules: &Modules, line: &Line) -> Frame {
    let loaded = line.module.and_then(|module| modules.get(module));
    let function = line.function.as_ref();
    let name = function.and_then(|function| function.name.clone());
    let place = || {
        let start = function?.start.wrapping_sub(loaded?.bias);
        Some(format!("{start:#x}"))
    };
    Frame {
        function: Function {
            name: name.or_else(place).unwrap_or_else(|| "?".to_owned()),
            file: loaded.map_or_else(String::new, |loaded| loaded.name().to_owned()),
            native: true,
        },
        line: 0,
        library: loaded
            .is_none_or(|loaded| loaded.is_c_library() || loaded.name().starts_with("lib")),
    }
}

/// What stands for frames that are not known.
fn named(name: &str) -> Frame {
    Frame {
        function: Function {
            name: name.to_owned(),
            file: String::new(),
            native: true,
        },
        line: 0,
        library: true,
    }
}

#[cfg(test)]
mod tests;
