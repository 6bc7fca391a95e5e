//! Finds memory that was allocated while we watched and is not freed, by function and script line. Used by `summary`
//! and `live::guest::announced`, and by `report::calls::not_freed` and `report::calls::format`.
//!
//! As of [descriptors](crate::descriptors), what is there follows from the order of events, because addresses are used again:
//!
//! ```text
//!   malloc(24) ─► call … return = p       p is allocated from its return on: nobody knows it before
//!   free(p) ─► call …                     p is free from its call on: the allocator may give it away before the return
//!   realloc(p, 48) ─► call … return = q   p is free from its call on, and q is an allocation of this line; if it failed, p is what it was
//! ```
//!
//! Of functions that call each other (`reallocarray` and `realloc`) the outermost counts; [`Rows`](crate::summary::Rows) asks for no other.
//!
//! A verdict needs each call. Where some were lost each of them may have freed one of a line's, so it is given only of lines that leave more
//! than that in each part of the time ([`NotFreed::lost`]); and where functions could not be hooked, or were taken out because they cost too
//! much, there are no rows either ([`NotFreed::unknown`]). A recording does not say either of the two, so of
//! its calls there are rows and no verdict ([`NotFreed::recorded`]).

mod effect;

use crate::consumer::SourceEnd;
use crate::descriptors::part_of;
use crate::event::{At, Call, Return};
use crate::site::{Key, Site};
use effect::Effect;
use prototypes::show::Memory;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// Limit of the allocations of all processes that are remembered; one takes some 60 bytes.
const MOST: usize = 1 << 21;
/// Limit of the rows. Lines come from guests, which may invent any number.
const MOST_ROWS: usize = 10_000;
/// The least time of watching for a verdict whether a line leaks.
pub const LEAST_WATCH: Duration = crate::descriptors::LEAST_WATCH;
/// Number of equal parts of the time in each of which a leak must have allocated what is not freed.
pub const PARTS: usize = crate::descriptors::PARTS;
/// The least number of allocations of a leak: fewer may be a program's first steps.
const LEAST: u64 = 20;
/// A leak is steady: of the earlier and the later half of the time, neither leaves more than this many times what the other leaves.
const STEADY: u64 = 4;
/// At most one in this many of those that a leak leaves may have been freed late, that is when it was a part of the time old: a
/// cache that replaces what is old frees as many as it keeps.
const MAY_BE_LATE: u64 = 10;

/// An allocation that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    since: Duration,
    bytes: u64,
    row: u32,
}

/// What a call will have allocated when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocating {
    bytes: u64,
    /// Where it will have stored the address; `None` = the address is its result.
    behind: Option<u64>,
    /// What it was given to replace, and what is known of that: if the call fails, it is still there.
    instead_of: Option<(u64, Option<Block>)>,
}

/// What one function has allocated on one script line.
#[derive(Debug)]
struct Tally {
    call: String,
    site: Site,
    allocated: u64,
    /// How many were freed, by the logarithm of their age in nanoseconds.
    freed: [u64; u64::BITS as usize],
}

/// A row of what is not freed.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The function, in the form of `-c`.
    pub call: String,
    /// Where it is called.
    pub site: Site,
    /// How often the function has allocated on this line.
    pub allocated: u64,
    /// How many of those are not freed.
    pub kept: u64,
    /// The bytes that were asked for, of those that are not freed.
    pub bytes: u64,
    /// How long the oldest of them has been there.
    pub oldest: Duration,
    /// Whether the line leaks: see [`PARTS`]; and nearly none was freed late.
    pub leaks: bool,
}

/// What is not freed at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotFreed {
    /// Rows by function and line: those that leak first, then by bytes. Rows of which everything is freed are left out.
    pub rows: Vec<Row>,
    /// How many were allocated while we watched.
    pub allocated: u64,
    /// How many of those are not freed.
    pub kept: u64,
    /// The bytes of those.
    pub bytes: u64,
    /// How many were freed that were allocated before lancet came, or that it does not know.
    pub foreign: u64,
    /// How many of [`NotFreed::allocated`] were there when their process ended, beside which others were watched. The kernel took them.
    pub ended: u64,
    /// How many found no room in the table; whether they were freed is not known.
    pub untold: u64,
    /// Calls that were lost: an allocation whose `free` is among them looks as if it was not freed. Rows that leak do so whichever those are.
    pub lost: u64,
    /// Functions of the allocator that could not be hooked, or not to the end. Nothing can be said then, and there are no rows.
    pub unknown: Vec<String>,
    /// Whether the calls are those of a recording. That does not say whether `free` was hooked to the end, so no row is said to leak.
    pub recorded: bool,
    /// How long it was watched, from the first event to the last.
    pub watched: Duration,
}

/// Allocations that are there according to the calls of one run so far. Calls must come in the order of time.
#[derive(Debug, Default)]
pub struct Allocations {
    processes: HashMap<i32, HashMap<u64, Block>>,
    /// Those of them that have ended, before another one was seen.
    over: HashSet<i32>,
    /// How many were there when their processes ended.
    ended: u64,
    /// How many there are in all processes.
    count: usize,
    rows: Vec<Tally>,
    by_key: HashMap<Key, u32>,
    foreign: u64,
    untold: u64,
    times: Option<[Duration; 2]>,
}

impl Allocations {
    /// Handles the begin of a call, and frees what it frees. Returns what it will have allocated when it returns, if anything.
    pub fn enter(&mut self, at: At, call: &Call) -> Option<Allocating> {
        let function = &call.edge.function;
        if function.is_system_call() {
            return None;
        }
        let effect = Effect::of(&function.name, &call.registers.gp)?;
        if self.over.remove(&at.process) {
            // Another process has its id.
            self.forget(at.process);
        }
        let [_, last] = self.times.get_or_insert([at.time; 2]);
        *last = at.time.max(*last);
        match effect {
            Effect::Allocates { bytes, behind } => Some(Allocating {
                bytes,
                behind,
                instead_of: None,
            }),
            Effect::Replaces { old: 0, bytes } => Some(Allocating {
                bytes,
                behind: None,
                instead_of: None,
            }),
            Effect::Replaces { old, bytes } => Some(Allocating {
                bytes,
                behind: None,
                instead_of: Some((old, self.take_out(at.process, old))),
            }),
            Effect::Frees(0) => None,
            Effect::Frees(address) => {
                let freed = self.take_out(at.process, address);
                self.note_freed(at, freed);
                None
            }
        }
    }

    /// Handles the return of a call that allocates. `key` is its row.
    pub fn leave(&mut self, at: At, call: Allocating, back: &Return, key: Key) {
        let result = back.returned.rax;
        let address = match call.behind {
            None => result,
            Some(place) => {
                let mut word = [0; 8];
                // posix_memalign returns the error, and stores nothing then.
                match result as i32 == 0 && back.captures.read(place, &mut word) {
                    true => u64::from_le_bytes(word),
                    false => 0,
                }
            }
        };
        if let Some((old, known)) = call.instead_of {
            // With a size of 0 the C library frees, and returns nothing.
            if address == 0 && call.bytes != 0 {
                if let Some(block) = known {
                    self.put(at.process, old, block);
                }
            } else {
                self.note_freed(at, known);
            }
        }
        if address != 0 {
            self.allocated(at, address, call.bytes, key);
        }
    }

    /// A process runs another program: all its memory is gone.
    pub fn replaced(&mut self, process: i32) {
        self.forget(process);
    }

    /// A process has ended: the kernel has taken what it had. Of the only one that is watched it is told what it did not free itself.
    pub fn ended(&mut self, process: i32) {
        if self.processes.len() == 1 {
            self.over.insert(process);
            return;
        }
        self.ended += self.forget(process) as u64;
    }

    /// Takes out all that a process has. Returns how many that were.
    fn forget(&mut self, process: i32) -> usize {
        let gone = self.processes.remove(&process).unwrap_or_default().len();
        self.count -= gone;
        gone
    }

    fn allocated(&mut self, at: At, address: u64, bytes: u64, key: Key) {
        let row = self.row(key);
        self.rows[row as usize].allocated += 1;
        let since = at.time;
        self.put(at.process, address, Block { since, bytes, row });
    }

    fn row(&mut self, key: Key) -> u32 {
        let is_new = !self.by_key.contains_key(&key);
        let key = match is_new && self.rows.len() >= MOST_ROWS {
            true => (crate::summary::OTHERS.to_owned(), Site::default()),
            false => key,
        };
        *self.by_key.entry(key).or_insert_with_key(|(call, site)| {
            self.rows.push(Tally {
                call: call.clone(),
                site: site.clone(),
                allocated: 0,
                freed: [0; u64::BITS as usize],
            });
            self.rows.len() as u32 - 1
        })
    }

    fn put(&mut self, process: i32, address: u64, block: Block) {
        let table = self.processes.entry(process).or_default();
        if self.count >= MOST && !table.contains_key(&address) {
            self.untold += 1;
            return;
        }
        // One that is there already was freed by a call that was not seen.
        if table.insert(address, block).is_none() {
            self.count += 1;
        }
    }

    fn take_out(&mut self, process: i32, address: u64) -> Option<Block> {
        let block = self.processes.get_mut(&process)?.remove(&address)?;
        self.count -= 1;
        Some(block)
    }

    fn note_freed(&mut self, at: At, block: Option<Block>) {
        let Some(block) = block else {
            self.foreign += 1;
            return;
        };
        let age = at.time.saturating_sub(block.since).as_nanos() as u64;
        self.rows[block.row as usize].freed[age.max(1).ilog2() as usize] += 1;
    }

    /// Returns what is not freed. `end` knows what was lost.
    pub fn finish(self, end: &SourceEnd) -> NotFreed {
        let [first, last] = self.times.unwrap_or_default();
        let watched = last.saturating_sub(first);
        let lost = end.losses.iter().map(|(_, lost)| {
            let calls = lost.records.saturating_add(lost.without_ring);
            calls.saturating_add(lost.panics)
        });
        let mut all = NotFreed {
            allocated: self.rows.iter().map(|row| row.allocated).sum(),
            foreign: self.foreign,
            ended: self.ended,
            untold: self.untold,
            lost: lost.fold(0, u64::saturating_add),
            unknown: of_allocators(&end.given_up),
            recorded: end.recorded,
            watched,
            ..NotFreed::default()
        };
        if !all.unknown.is_empty() {
            return all;
        }
        let mut kept = vec![Kept::default(); self.rows.len()];
        let alone = self.processes.len() == 1;
        for (process, blocks) in &self.processes {
            if self.over.contains(process) && !alone {
                all.ended += blocks.len() as u64;
                continue;
            }
            for block in blocks.values() {
                kept[block.row as usize].add(block, first, watched);
            }
        }
        let has_verdict = all.untold == 0 && !all.recorded;
        for (tally, kept) in self.rows.into_iter().zip(kept) {
            if kept.count == 0 {
                continue;
            }
            all.kept += kept.count;
            all.bytes = all.bytes.saturating_add(kept.bytes);
            all.rows.push(Row {
                leaks: has_verdict && kept.leaks(&tally, watched, all.lost),
                call: tally.call,
                site: tally.site,
                allocated: tally.allocated,
                kept: kept.count,
                bytes: kept.bytes,
                oldest: kept
                    .oldest
                    .map_or(Duration::ZERO, |at| last.saturating_sub(at)),
            });
        }
        let key = |row: &Row| (Reverse(row.leaks), Reverse(row.bytes), row.site.clone());
        all.rows.sort_by_cached_key(key);
        all
    }
}

/// Whether a function of this name is one of those that are paired.
pub(crate) fn is_paired(name: &str) -> bool {
    Effect::of(name, &[0; 6]).is_some()
}

/// Those of these functions that are an allocator's, each once.
fn of_allocators(names: &[String]) -> Vec<String> {
    let names = names.iter().filter(|name| is_paired(name));
    let names: BTreeSet<String> = names.cloned().collect();
    names.into_iter().collect()
}

/// What a row has left.
#[derive(Clone, Default)]
struct Kept {
    count: u64,
    bytes: u64,
    oldest: Option<Duration>,
    parts: [u64; PARTS],
}

impl Kept {
    fn add(&mut self, block: &Block, first: Duration, watched: Duration) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(block.bytes);
        self.oldest = Some(
            self.oldest
                .map_or(block.since, |oldest| oldest.min(block.since)),
        );
        self.parts[part_of(block.since, first, watched)] += 1;
    }

    /// Whether a line leaks that has left this, whichever of them `lost` calls that were not seen have freed.
    fn leaks(&self, tally: &Tally, watched: Duration, lost: u64) -> bool {
        let part = watched.as_nanos() as u64 / PARTS as u64;
        let late = part.max(1).next_power_of_two().ilog2() as usize;
        let late: u64 = tally.freed.iter().skip(late).sum();
        let (old, young) = self.parts.split_at(PARTS / 2);
        let (old, young): (u64, u64) = (old.iter().sum(), young.iter().sum());
        watched >= LEAST_WATCH
            && self.count >= LEAST.saturating_add(lost)
            && self.parts.iter().all(|part| *part > lost)
            && (old.min(young) - lost).saturating_mul(STEADY) >= old.max(young)
            && late.saturating_mul(MAY_BE_LATE) <= self.count
    }
}

#[cfg(test)]
mod tests;
