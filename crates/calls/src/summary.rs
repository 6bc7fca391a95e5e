//! `-c`: how often and how long, by function and script line.

use crate::consumer::End;
use crate::event::{Event, EventKind};
use crate::groups::{Groups, Ticket};
use crate::preset::Preset;
use crate::source::Count;
use crate::stacks::Stacks;
use frames::names::readable;
use hooks::rings::Line;
use process::functions::Function;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
pub use wire::calls::BUCKETS;
use wire::calls::{bucket, bucket_start};

/// One row. Times are in the unit of its [`Rows`].
#[derive(Clone, Debug)]
pub struct Row {
    /// How many calls, those that were left included.
    pub calls: u64,
    /// How many were left without a return, by an exception or a jump or by the end of their process. They have no
    /// time, and are in no bucket.
    pub left: u64,
    /// The time of all that have returned.
    pub total: u64,
    /// The time of the longest.
    pub longest: u64,
    /// How many calls took how long: [`BUCKETS`] of them, each a quarter wider than the last ([`bucket_bounds`]).
    pub buckets: Vec<u64>,
}

impl Default for Row {
    fn default() -> Self {
        Row {
            calls: 0,
            left: 0,
            total: 0,
            longest: 0,
            buckets: vec![0; BUCKETS],
        }
    }
}

/// What a row is of: the function's name with what a preset says its calls have in common, and the script line as text,
/// which is empty where there is none.
pub type Key = (String, String);

/// From which time on, and up to which, calls are counted in a bucket.
pub fn bucket_bounds(bucket: usize) -> [u64; 2] {
    [bucket, (bucket + 1).min(BUCKETS - 1)].map(bucket_start)
}

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    function: Arc<Function>,
    line: Option<Arc<Line>>,
    began: Duration,
    ticket: Ticket,
}

/// Rows by function and line, made of events and of what guests counted themselves.
pub struct Rows {
    groups: Groups<Key>,
    rows: HashMap<Key, Row>,
    stacks: Stacks<Open>,
    unit: f64,
    demangle: bool,
}

impl Rows {
    /// No row yet. `strings`: characters of a string that are known, at most. `demangle`: names of C++ and Rust functions
    /// are those of the source.
    pub fn new(presets: &[Preset], strings: u32, demangle: bool) -> Self {
        Rows {
            groups: Groups::new(presets, strings),
            rows: HashMap::new(),
            stacks: Stacks::default(),
            unit: 1.0,
            demangle,
        }
    }

    /// Nanoseconds of what rows count: 1 where calls were reported one by one, those of a cycle where guests counted.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The rows, most time first.
    pub fn sorted(&self) -> Vec<(&Key, &Row)> {
        sorted(&self.rows)
    }

    fn key(&self, function: &Function, line: Option<&Line>) -> Key {
        let name = if self.demangle {
            readable(&function.shown())
        } else {
            function.shown().into_owned()
        };
        (name, line.map(Line::to_string).unwrap_or_default())
    }

    /// Adds what a guest counted itself.
    fn add(&mut self, count: &Count) {
        let counted = &count.counted;
        if counted.returned == 0 && counted.left == 0 {
            // It is open.
            return;
        }
        let key = self.key(&count.function, count.line.as_deref());
        let row = self.rows.entry(key).or_default();
        // A process that has changed its counts may say any number.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut row.calls, counted.returned);
        add(&mut row.calls, counted.left);
        add(&mut row.left, counted.left);
        add(&mut row.total, counted.total);
        row.longest = row.longest.max(counted.longest);
        for (sum, more) in row.buckets.iter_mut().zip(&counted.buckets) {
            add(sum, *more);
        }
        self.unit = count.period;
    }

    /// The row of a call: as [`Rows::key`], with what a preset says its calls have in common.
    fn key_of(&self, open: &Open) -> Key {
        let (mut name, line) = self.key(&open.function, open.line.as_deref());
        if let Some(group) = &open.ticket.group {
            name = format!("{name} {group}");
        }
        (name, line)
    }

    /// Adds a call that was reported.
    fn returned(&mut self, key: Key, took: Duration) {
        let took = took.as_nanos() as u64;
        let row = self.rows.entry(key).or_default();
        row.calls += 1;
        row.total += took;
        row.longest = row.longest.max(took);
        row.buckets[bucket(took)] += 1;
    }

    /// Adds a call that was reported and is known to have been left without a return.
    fn left(&mut self, open: Open) {
        if open.ticket.is_silent() {
            return;
        }
        let key = self.key_of(&open);
        let row = self.rows.entry(key).or_default();
        row.calls += 1;
        row.left += 1;
    }

    /// Takes an event.
    pub fn take(&mut self, event: Event) {
        match event.kind {
            EventKind::Opened(_) => {}
            EventKind::Call(call) => {
                let mut around = self.stacks.around(event.at);
                let inner = around.any(|open| open.ticket.grouped);
                drop(around);
                let open = Open {
                    ticket: self.groups.enter(event.at, &call, inner),
                    function: call.edge.function.clone(),
                    line: call.line,
                    began: event.at.time,
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
                    let (ticket, began) = (open.ticket, open.began);
                    for (key, took) in self.groups.leave(event.at, ticket, &back, key, began) {
                        self.returned(key, took);
                    }
                }
            }
            EventKind::Forked(child) => self.stacks.fork(event.at.process, child),
            EventKind::Ended(_) => {
                // Those that ended it, or that led to another program.
                for open in self.stacks.drain(Some(event.at.process)) {
                    self.left(open);
                }
            }
            EventKind::Signal(_) => {}
        }
    }

    /// Takes what guests counted themselves, when nothing is reported any more.
    pub fn finish(&mut self, end: &End) {
        for count in &end.counted {
            self.add(count);
        }
    }
}

/// Rows by their time, most first, and by name where that is the same.
pub fn sorted(rows: &HashMap<Key, Row>) -> Vec<(&Key, &Row)> {
    let mut sorted: Vec<(&Key, &Row)> = rows.iter().collect();
    sorted.sort_by_key(|(name, row)| (Reverse(row.total), *name));
    sorted
}

impl Row {
    /// The mean time of those that have returned.
    pub fn mean(&self) -> u64 {
        self.total / (self.calls - self.left).max(1)
    }

    /// What `percent` of the calls stayed below: the upper bound of the bucket, which is at most a quarter
    /// above the lower one.
    pub fn quantile(&self, percent: u64) -> u64 {
        let rank = ((self.calls - self.left) * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_start((bucket + 1).min(BUCKETS - 1)).min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut row = Row {
            calls: 100,
            left: 0,
            total: 0,
            longest: 5000,
            buckets: vec![0; BUCKETS],
        };
        row.buckets[wire::calls::bucket(100)] = 95;
        row.buckets[wire::calls::bucket(5000)] = 5;
        assert!((100..=128).contains(&row.quantile(50)));
        assert!((100..=128).contains(&row.quantile(95)));
        assert_eq!(row.quantile(99), 5000);
    }
}
