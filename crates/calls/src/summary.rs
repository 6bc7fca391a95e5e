//! The table of `-c`: how often and how long, by function and script line. Used by `allocations` and `live::lookup`,
//! and by the crates `report` and `lancet`.

use crate::allocations::{Allocating, Allocations, NotFreed};
use crate::consumer::{Forgotten, SourceEnd};
use crate::descriptors::{Descriptors, Opening, StillOpen};
use crate::event::{Caller, End, Event, EventKind};
use crate::groups::{Groups, Outcomes, Ticket};
use crate::preset::Preset;
use crate::source::Count;
use crate::stacks::{Kept, OpenCalls};
use frames::names::readable;
use hooks::rings::Line;
use process::functions::Function;
use prototypes::outcome;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use crate::site::{Key, Site};
pub use wire::calls::BUCKETS;
use wire::calls::{bucket, bucket_start};

/// One row. Times are in the unit of its [`Rows`].
#[derive(Clone, Debug)]
pub struct Row {
    /// How many calls, those that were left included.
    pub calls: u64,
    /// How many calls were left without a return, by an exception or a jump or by the end of their process. They have no time, and
    /// are in no bucket.
    pub left: u64,
    /// The time of all that have returned.
    pub total: u64,
    /// The time of the longest.
    pub longest: u64,
    /// How many calls have failed, as far as their results were seen.
    pub failed: u64,
    /// Bytes that they have moved or got, as far as that was seen.
    pub bytes: u64,
    /// Rows that statements had.
    pub rows: u64,
    /// Number of calls by duration: [`BUCKETS`] of them, each a quarter wider than the last ([`bucket_bounds`]).
    pub buckets: Vec<u64>,
}

impl Default for Row {
    fn default() -> Self {
        Row {
            calls: 0,
            left: 0,
            total: 0,
            longest: 0,
            failed: 0,
            bytes: 0,
            rows: 0,
            buckets: vec![0; BUCKETS],
        }
    }
}

/// Limit of the rows that are kept: a program that writes values into its statements has a new statement with each call, and a row
/// takes up to 6 KiB.
const MOST: usize = 10_000;
/// Number of rows from which on those of native frames are made by function only, because a guest may invent any number of frames.
const MOST_BY_STACK: usize = 8_000;
/// The function's name of the row for all calls beyond the limit.
pub const OTHERS: &str = "(others: there are more rows than lancet keeps)";

/// Returns the range of times of a bucket: from the first, up to below the second.
pub fn bucket_bounds(bucket: usize) -> [u64; 2] {
    [bucket, (bucket + 1).min(BUCKETS - 1)].map(bucket_start)
}

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    function: Arc<Function>,
    line: Option<Arc<Line>>,
    began: Duration,
    /// The integer registers at the call.
    arguments: [u64; 6],
    ticket: Ticket,
    opening: Option<Opening>,
    allocating: Option<Allocating>,
    /// The native frames around it, if they are used instead of a line.
    callers: Vec<Arc<Caller>>,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        self.ticket.bytes() + self.callers.len() * size_of::<Arc<Caller>>()
    }
}

/// Rows by function and line, made from events and from the counts of guests.
pub struct Rows {
    groups: Groups<Key>,
    rows: HashMap<Key, Row>,
    /// How many calls are in the row of others.
    others: u64,
    stacks: OpenCalls<Open>,
    /// The open descriptors, if a preset needs them.
    descriptors: Option<Descriptors>,
    still_open: Option<StillOpen>,
    /// What is allocated, if a preset needs it.
    allocations: Option<Allocations>,
    not_freed: Option<NotFreed>,
    unit: f64,
    demangle: bool,
    /// So many native frames around each call tell rows apart.
    frames: usize,
    /// The first event and the last.
    times: Option<(Duration, Duration)>,
}

impl Rows {
    /// Makes an empty table. `strings`: limit of the known characters of a string. `demangle`: whether names of C++ and Rust
    /// functions are shown as in the source.
    pub fn new(presets: &[Preset], strings: u32, demangle: bool) -> Self {
        Rows {
            groups: Groups::new(presets, strings),
            rows: HashMap::new(),
            others: 0,
            stacks: OpenCalls::default(),
            descriptors: presets
                .iter()
                .any(|preset| preset.descriptors)
                .then(Descriptors::default),
            still_open: None,
            allocations: presets
                .iter()
                .any(|preset| preset.allocations)
                .then(Allocations::default),
            not_freed: None,
            unit: 1.0,
            demangle,
            frames: 0,
            times: None,
        }
    }

    /// Rows are told apart by so many native frames around each call, too, and not by the script line alone.
    pub fn by_frames(self, frames: usize) -> Self {
        Rows { frames, ..self }
    }

    /// Returns the nanoseconds of the unit in rows: 1 if calls were reported one by one, those of a cycle if guests counted.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Whether calls were noted one by one. Their times hold what that costs, which is more than many a call takes.
    pub fn are_noted(&self) -> bool {
        self.times.is_some()
    }

    /// Returns the descriptors that are still open when no more events come, if a preset needs them.
    pub fn still_open(&self) -> Option<&StillOpen> {
        self.still_open.as_ref()
    }

    /// Returns what is not freed when no more events come, if a preset needs it.
    pub fn not_freed(&self) -> Option<&NotFreed> {
        self.not_freed.as_ref()
    }

    /// Returns the rows in this order.
    pub fn sorted(&self, order: Order) -> Vec<(&Key, &Row)> {
        sorted(&self.rows, order)
    }

    /// Returns the time from the first event to the last; `None` = guests counted, or there was none.
    pub fn lasted(&self) -> Option<Duration> {
        self.times.map(|(first, last)| last.saturating_sub(first))
    }

    fn key(&self, function: &Function, line: Option<&Arc<Line>>) -> Key {
        let name = if self.demangle {
            readable(&function.shown())
        } else {
            function.shown().into_owned()
        };
        (name, line.map(Site::of).unwrap_or_default())
    }

    /// Adds the counts of a guest.
    fn add(&mut self, count: &Count) {
        let counted = &count.counted;
        if counted.returned == 0 && counted.left == 0 {
            // The call is still open.
            return;
        }
        let key = self.key(&count.function, count.line.as_ref());
        let calls = counted.returned.saturating_add(counted.left);
        if key.0 == OTHERS {
            self.others = self.others.saturating_add(calls);
        }
        let row = self.row(key, calls);
        // The sum saturates, because a process that has changed its counts may report any number.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut row.calls, counted.returned);
        add(&mut row.calls, counted.left);
        add(&mut row.left, counted.left);
        add(&mut row.total, counted.total);
        add(&mut row.failed, counted.errors);
        add(&mut row.bytes, counted.bytes);
        row.longest = row.longest.max(counted.longest);
        for (bucket, more) in &counted.buckets {
            if let Some(sum) = row.buckets.get_mut(usize::from(*bucket)) {
                add(sum, *more);
            }
        }
        self.unit = count.period;
    }

    /// Returns the key of a call's row, with what a preset's calls have in common.
    fn key_of(&mut self, open: &Open) -> Key {
        let (mut name, mut site) = self.key(&open.function, open.line.as_ref());
        if !open.callers.is_empty() && self.rows.len() < MOST_BY_STACK {
            let callers = open.callers.iter().map(|caller| caller.name());
            site = Site::of_frames(callers.collect(), open.line.as_ref());
        }
        if let Some(group) = &open.ticket.group {
            if let Some(adds) = self.groups.adds_as(&open.function) {
                name = adds.into();
            }
            name = format!("{name} {group}");
        }
        (name, site)
    }

    /// Adds a call that was reported.
    fn returned(&mut self, key: Key, over: Outcomes) {
        let took = over.took.as_nanos() as u64;
        let row = self.row(key, 1);
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut row.failed, u64::from(over.failed));
        add(&mut row.bytes, over.bytes);
        add(&mut row.rows, over.rows);
        add(&mut row.calls, 1);
        add(&mut row.total, took);
        row.longest = row.longest.max(took);
        add(&mut row.buckets[bucket(took)], 1);
    }

    /// Adds a call that was reported and is known to have been left without a return.
    fn left(&mut self, open: Open) {
        if open.ticket.is_silent() {
            return;
        }
        let key = self.key_of(&open);
        self.not_returned(key);
    }

    fn not_returned(&mut self, key: Key) {
        let row = self.row(key, 1);
        row.calls = row.calls.saturating_add(1);
        row.left = row.left.saturating_add(1);
    }

    /// Returns the row to which `calls` calls are added; beyond the limit of rows that of all others.
    fn row(&mut self, key: Key, calls: u64) -> &mut Row {
        let is_new = !self.rows.contains_key(&key);
        let key = if is_new && self.rows.len() >= MOST {
            self.others = self.others.saturating_add(calls);
            (OTHERS.to_owned(), Site::default())
        } else {
            key
        };
        self.rows.entry(key).or_default()
    }

    /// Adds what an event tells to the rows.
    pub fn take(&mut self, event: Event) {
        if matches!(event.kind, EventKind::Call(_) | EventKind::Return(_)) {
            let time = event.at.time;
            let (first, last) = self.times.get_or_insert((time, time));
            (*first, *last) = ((*first).min(time), (*last).max(time));
        }
        match event.kind {
            EventKind::Opened(_) => {}
            EventKind::Call(call) => {
                let around = || self.stacks.around(event.at);
                let tickets = around().map(|open| &open.ticket);
                let ticket = self.groups.enter(event.at, &call, tickets);
                let descriptors = self.descriptors.as_mut();
                let allocates = |open: &Open| open.allocating.is_some();
                let allocations = self.allocations.as_mut();
                let allocations = allocations.filter(|_| !around().any(allocates));
                // If no script makes a call, only its native callers show where it comes from.
                let pairs = descriptors.is_some() || allocations.is_some();
                let frames = match pairs && call.line.is_none() {
                    true => usize::MAX,
                    false => self.frames,
                };
                let mut call = call;
                call.callers.truncate(frames);
                let open = Open {
                    opening: descriptors.and_then(|of| of.enter(event.at, &call)),
                    allocating: allocations.and_then(|of| of.enter(event.at, &call)),
                    ticket,
                    function: call.edge.function.clone(),
                    line: call.line,
                    began: event.at.time,
                    arguments: call.registers.gp,
                    callers: call.callers,
                };
                let (_, unwound) = self.stacks.enter(event.at, open);
                for open in unwound {
                    self.left(open.call);
                }
            }
            EventKind::Return(back) => {
                if let Some((open, _, inside)) = self.stacks.leave(event.at) {
                    for open in inside {
                        self.left(open.call);
                    }
                    let key = self.key_of(&open);
                    if let (Some(of), Some(opening)) = (&mut self.descriptors, open.opening) {
                        of.leave(event.at, opening, &back, key.clone());
                    }
                    if let (Some(of), Some(call)) = (&mut self.allocations, open.allocating) {
                        of.leave(event.at, call, &back, key.clone());
                    }
                    let outcome = outcome::of(&open.function.name, open.function.is_system_call());
                    let result = back.returned.rax;
                    let over = Outcomes {
                        took: event.at.time.saturating_sub(open.began),
                        failed: outcome.failed(result),
                        bytes: outcome.bytes(&open.arguments, result),
                        rows: 0,
                    };
                    for (key, over) in self.groups.leave(event.at, open.ticket, &back, key, over) {
                        self.returned(key, over);
                    }
                }
            }
            EventKind::Forked(child) => self.stacks.fork(event.at.process, child),
            EventKind::Ended(how) => {
                match (&mut self.allocations, how) {
                    (None, _) => {}
                    (Some(of), End::Replaced) => of.replaced(event.at.process),
                    (Some(of), _) => of.ended(event.at.process),
                }
                // The calls that ended the process, or that led to another program.
                for open in self.stacks.drain(Some(event.at.process)) {
                    self.left(open);
                }
            }
            EventKind::Signal(_) | EventKind::Thread(_) => {}
        }
    }

    /// Returns what was forgotten because there was too much of it. Calls that had not returned are in no row.
    pub fn forgotten(&self) -> Forgotten {
        Forgotten {
            open: self.stacks.forgotten(),
            rows: self.others,
            statements: self.groups.forgotten(),
            allocations: self.not_freed.as_ref().map_or(0, |of| of.untold),
        }
    }

    /// Takes the counts of guests, when no more events come.
    pub fn finish(&mut self, end: &SourceEnd) {
        let rest = self.groups.rest();
        for (key, over) in rest.over {
            self.returned(key, over);
        }
        for key in rest.open {
            self.not_returned(key);
        }
        for count in &end.counted {
            self.add(count);
        }
        let descriptors = self.descriptors.take();
        self.still_open = descriptors.map(|of| of.finish(&end.descriptors));
        self.not_freed = self.allocations.take().map(|of| of.finish(end));
    }
}

/// Which rows come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those that took most time.
    #[default]
    Time,
    /// Those that took most time, shown with their share of the time that passed.
    Wall,
    /// Those with most calls.
    Calls,
    /// Those with the greatest mean.
    Mean,
    /// Those with the longest call.
    Max,
    /// Those with most failures.
    Failed,
    /// Those with most bytes.
    Bytes,
    /// In the order of the alphabet.
    Name,
}

impl Order {
    /// All orders, by their names on the command line.
    pub const ALL: [(&str, Order); 8] = [
        ("time", Order::Time),
        ("wall", Order::Wall),
        ("calls", Order::Calls),
        ("mean", Order::Mean),
        ("max", Order::Max),
        ("failed", Order::Failed),
        ("bytes", Order::Bytes),
        ("name", Order::Name),
    ];

    /// Whether results of calls are needed for it. A guest that counts sees them; in a recording they are in each call.
    pub fn asks_results(self) -> bool {
        matches!(self, Order::Failed | Order::Bytes)
    }
}

/// Sorts rows by an order; equal ones by their time, then by name.
pub fn sorted(rows: &HashMap<Key, Row>, order: Order) -> Vec<(&Key, &Row)> {
    let mut sorted: Vec<(&Key, &Row)> = rows.iter().collect();
    let figure = |row: &Row| match order {
        Order::Time | Order::Wall | Order::Name => 0,
        Order::Calls => row.calls,
        Order::Mean => row.mean(),
        Order::Max => row.longest,
        Order::Failed => row.failed,
        Order::Bytes => row.bytes,
    };
    match order {
        Order::Name => sorted.sort_by_key(|(name, _)| *name),
        _ => sorted.sort_by_key(|(name, row)| (Reverse(figure(row)), Reverse(row.total), *name)),
    }
    sorted
}

impl Row {
    /// Whether the time of any call is known. It is not where none has returned, and of functions whose returns are not hooked because their
    /// callers' stacks are switched (`swapcontext`). A call that is timed takes at least a tick.
    pub fn is_timed(&self) -> bool {
        self.longest != 0
    }

    /// Returns the mean time of the calls that have returned.
    pub fn mean(&self) -> u64 {
        self.total / self.returned().max(1)
    }

    /// Returns how many calls have returned. The numbers may come from a hostile process, so the subtraction saturates.
    fn returned(&self) -> u64 {
        self.calls.saturating_sub(self.left)
    }

    /// Returns the time that `percent` of the calls stayed below: the upper bound of the bucket, which is at most a quarter above
    /// the lower one.
    pub fn quantile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.returned()) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return bucket_start((bucket + 1).min(BUCKETS - 1)).min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests;
