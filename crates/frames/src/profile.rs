//! Where threads run, by many looks at their stacks: which function, and called from where. Used by the crates `report`
//! and `lancet`.
//!
//! A look sees each thread at one moment. Of a thread that is on a processor then the stack is a sample: looked at often enough, the share of
//! samples with a function in them is its share of the processor time. A thread that waits for a processor is none: it is where it woke up as
//! a rule, in a call that takes next to no time. What sleeps is counted apart, with what it waits for ([`waits`]); [`Profile::shown`] takes
//! these into the samples, as functions that are called last.
//!
//! A sample has the script's frames, outermost first, and beyond them the native function that the innermost of them has called, if it has:
//! of `Array#pack` it is the function of libruby that works. A thread that runs no script has all its native frames.

mod around;
pub mod difference;
mod frame;
mod grouped;
mod mode;
mod sampled;
pub mod saved;
mod threads;
mod views;
pub mod waits;

pub use around::Around;
pub use frame::{Frame, Function, Kind};
pub use grouped::By;
pub use mode::Mode;
pub use sampled::{MISSING, script};

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use process::processors::are_several;
use process::snapshot::Activity;

use crate::live::open::{Live, Look};

use frame::{Known, MOST_FRAMES};
use sampled::frames;
use threads::{Did, Threads};
use waits::{ENTRY, Sleep, Wait, Waits};

/// The samples of many looks.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// How often all processes were looked at.
    pub rounds: u64,
    /// How many samples there are: how often a thread was seen that did what is shown ([`Mode`]); on a processor, unless chosen otherwise.
    pub samples: u64,
    /// How often a thread was seen on a processor.
    pub ran: u64,
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
    /// What its samples are.
    mode: Mode,
    /// What threads waited for.
    pub waits: Waits,
    threads: Threads,
    known: Known,
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
    /// Adds what one look at a process saw; `waits` says what the thread of a stack, by its number, waits for. Where lancet may run on a single
    /// processor nobody else is on it when lancet looks, so there all that want one count.
    pub fn add_look(
        &mut self,
        pid: i32,
        live: &Live,
        look: &Look,
        waits: &dyn Fn(usize) -> Option<Wait>,
    ) {
        let told_apart = *self.told_apart.get_or_insert_with(are_several);
        let interpreters = live.interpreters();
        self.queued += look.queued.len() as u64;
        self.waits.begin(pid);
        let sleep = |number: usize| {
            let (stack, wait) = (&look.stacks[number], waits(number)?);
            let frames = frames(live.modules(), &interpreters, stack);
            Some(Sleep {
                tid: stack.thread.tid,
                began: stack.state.as_ref()?.began,
                frames: waits::waiting(frames),
                wait,
            })
        };
        let threads = look.stacks.iter().enumerate();
        // Of a thread that woke up in the look and fell asleep again there are two stacks.
        let mut slept_twice = HashSet::new();
        for (number, stack) in threads.filter(|(_, stack)| stack.parked.is_none()) {
            let state = stack.state.as_ref();
            let stopped = state.is_none_or(|state| state.stopped);
            let sleeps = state.is_some_and(|state| state.wait.is_some());
            let tid = stack.thread.tid;
            let vm = state.and_then(|state| state.vm.as_ref());
            let name = vm.and_then(|vm| vm.name.as_deref());
            let name = name.unwrap_or(&stack.thread.name);
            let is_late = look.late.contains(&tid);
            let is_kept = look.kept.contains(&tid) && (!is_late || slept_twice.insert(tid));
            match stack.thread.activity {
                _ if stopped => self.slept += 1,
                // Nothing else tells what it is doing by the next look.
                _ if is_late && !is_kept && sleeps => match sleep(number) {
                    Some(sleep) => self.waits.add_late(name.to_owned(), sleep),
                    None => self.slept += 1,
                },
                activity if is_kept || activity != Activity::Ran && sleeps => {
                    self.slept += 1;
                    // What it does, and where, was found out when it was read.
                    let again = if is_kept {
                        self.waits.add_again(tid)
                    } else {
                        None
                    };
                    let is_at_work = again.or_else(|| Some(self.waits.add_sleep(sleep(number)?)));
                    if is_at_work == Some(true) {
                        self.threads.add(name, Did::Waited, 1);
                    }
                }
                Activity::Slept => self.slept += 1,
                Activity::Queued if told_apart => self.queued += 1,
                activity => {
                    self.unsure += u64::from(activity != Activity::Ran);
                    self.threads.add(name, Did::Ran, 1);
                    self.add(frames(live.modules(), &interpreters, stack));
                }
            }
        }
        for (name, is_at_work) in self.waits.end(pid) {
            self.slept += 1;
            if is_at_work {
                self.threads.add(&name, Did::Waited, 1);
            }
        }
    }

    /// Adds a sample; the outermost frame comes first.
    pub fn add(&mut self, frames: Vec<Frame>) {
        self.ran += 1;
        self.add_times(frames, 1);
    }

    /// Adds `times` samples with the same frames.
    fn add_times(&mut self, mut frames: Vec<Frame>, times: u64) {
        self.samples += times;
        let stack = self.known.stack(&mut frames);
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

    /// Returns the different stacks, outermost frame first, and how often each was seen, in an order that does not change.
    pub fn stacks(&self) -> Vec<(Vec<&Frame>, u64)> {
        let mut stacks: Vec<_> = self.each_stack().collect();
        stacks.sort();
        stacks
    }

    fn each_stack(&self) -> impl Iterator<Item = (Vec<&Frame>, u64)> {
        let stacks = self.stacks.iter();
        stacks.map(|(stack, count)| (self.known.frames(stack), *count))
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

    /// About as many bytes of memory as it takes.
    pub fn memory(&self) -> usize {
        let stacks = self.stacks.len() * ENTRY + self.frames * size_of::<u32>();
        self.known.memory() + stacks + self.waits.memory()
    }

    /// The counts that a file has.
    fn counts(&self) -> [u64; 7] {
        [
            self.rounds,
            self.samples,
            self.ran,
            self.unsure,
            self.queued,
            self.slept,
            self.cut,
        ]
    }

    fn counts_mut(&mut self) -> [&mut u64; 7] {
        [
            &mut self.rounds,
            &mut self.samples,
            &mut self.ran,
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

#[cfg(test)]
mod tests;
