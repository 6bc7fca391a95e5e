//! Finds descriptors that were opened while we watched and are still open, by system call and script line. Used by
//! `allocations`, `live::guest::descriptors` and others here, and by crate `report`.
//!
//! A descriptor is a number within its process, and numbers are used again. What is open follows from the order of events:
//!
//! ```text
//!   openat ─► call … return = 5       5 is open from its return on: nobody can name it before
//!   close(5) ─► call …                5 is closed from its call on: the kernel gives the number away before the return
//! ```
//!
//! The process's own table at the end (`/proc/PID/fd`, [`Held`]) shows what that misses. A descriptor that is gone was closed unseen (by an
//! exec, by io_uring). One that exists and was never seen came unseen (by io_uring, from another process by `SECCOMP_IOCTL_NOTIF_ADDFD`,
//! with an event of fanotify, by a call at a place that is not hooked).

mod effect;
pub mod names;

pub use effect::{Opening, all};

use crate::event::{At, Call, Return};
use crate::site::{Key, Site};
use effect::Effect;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Limit of the descriptors of one process that are remembered: the kernel's default limit (`fs.nr_open`).
const MOST: usize = 1 << 20;
/// Limit of the descriptors of one `close_range` that are handled one by one.
const MANY: u32 = 1 << 16;
/// The least time of watching for a verdict whether a line leaks.
pub const LEAST_WATCH: Duration = Duration::from_secs(10);
/// Number of equal parts of the time in each of which a leak must have opened descriptors that are still open. Descriptors that a program
/// opens for good at its start, and those that requests have open at the end, are all of one part.
pub const PARTS: usize = 4;
/// A leak has at least one in this many of its opened descriptors still open.
const STAY: u64 = 2;

/// The descriptors that a process has, as the kernel lists them.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Descriptors that the process had when it was opened.
    pub before: BTreeSet<u32>,
    /// Descriptors that it had when leaving it began; what it opens from then on until the hooks are out is still seen.
    pub leaving: BTreeSet<u32>,
    /// Descriptors that it had when the hooks were out, with a description of each; `None` for a process that ended. What it opens and
    /// closes after that is not seen.
    pub after: Option<BTreeMap<u32, String>>,
    /// The most that it may have (the soft `RLIMIT_NOFILE`).
    pub limit: Option<u64>,
}

/// The numbers of the descriptors that a process has, as the kernel lists them.
///
/// # Errors
/// It is gone, or its descriptors may not be listed: the right to trace it does not suffice (`proc_fd_permission`, fs/proc/fd.c).
pub(crate) fn numbers(pid: i32) -> process::Result<BTreeSet<u32>> {
    let descriptors = process::proc_file::descriptors(pid)
        .map_err(|error| process::Error::of_proc(pid, "fd", error))?;
    Ok(descriptors.map(|one| one.number).collect())
}

/// A descriptor that was opened while we watched.
#[derive(Clone, Copy, Debug)]
struct Open {
    row: usize,
    since: Duration,
}

/// The state of one process's descriptors.
#[derive(Debug, Default)]
struct Table {
    open: HashMap<u32, Open>,
    /// Descriptors that it had before lancet came and that were seen being closed.
    closed_before: BTreeSet<u32>,
}

/// How many descriptors one system call has opened on one script line.
#[derive(Debug)]
struct Tally {
    call: String,
    site: Site,
    opened: u64,
}

/// A row of what is still open.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The system call, in the form of `-c`.
    pub call: String,
    /// Where it is made.
    pub site: Site,
    /// How many descriptors the system call opened on this line.
    pub opened: u64,
    /// How many of those are still open.
    pub open: u64,
    /// How long the oldest of them has been open.
    pub oldest: Duration,
    /// Whether the line leaks: some from each part of the time ([`PARTS`]) are still open, and of all at least half.
    pub leaks: bool,
    /// A description of the oldest; empty if the process has ended, or for a recording.
    pub example: String,
}

/// What is still open at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StillOpen {
    /// Rows by system call and line: those that leak first, then by how many are open. Rows without open descriptors are left out.
    pub rows: Vec<Row>,
    /// How many were opened while we watched.
    pub opened: u64,
    /// How many of those that were opened while we watched are still open.
    pub open: u64,
    /// How many the processes had open when lancet came.
    pub before: u64,
    /// How many of those were seen being closed.
    pub before_closed: u64,
    /// How many were closed by no call that was seen.
    pub closed_unseen: u64,
    /// How many were opened by no call that was seen.
    pub came_unseen: u64,
    /// How long it was watched, from the first event to the last.
    pub watched: Duration,
    /// The smallest limit of any of the processes; `None` = not known.
    pub limit: Option<u64>,
}

/// The descriptors that are open according to the calls of one run so far; [`Descriptors::finish`] compares them with the kernel's lists.
/// Calls must come in the order of time; otherwise a number that is used again is counted for the wrong line.
#[derive(Debug, Default)]
pub struct Descriptors {
    processes: HashMap<i32, Table>,
    rows: Vec<Tally>,
    by_key: HashMap<Key, usize>,
    times: Option<[Duration; 2]>,
}

impl Descriptors {
    /// Handles the begin of a call, and closes what it closes. Returns what it will have opened when it returns, if anything.
    pub fn enter(&mut self, at: At, call: &Call) -> Option<Opening> {
        let [_, last] = self.times.get_or_insert([at.time; 2]);
        *last = at.time.max(*last);
        let function = &call.edge.function;
        if !function.is_system_call() {
            return None;
        }
        match Effect::of(&function.name, &call.registers.gp, &call.captures)? {
            Effect::Opens(opening) => Some(opening),
            Effect::Closes(first, last) => {
                let table = self.processes.entry(at.process).or_default();
                table.close_all(first, last);
                None
            }
        }
    }

    /// Handles the return of a call that opens descriptors. `key` is its row.
    pub fn leave(&mut self, at: At, opening: Opening, back: &Return, key: Key) {
        let result = back.returned.rax;
        if (result as i32) < 0 {
            // The call failed.
            return;
        }
        for number in opening.numbers(&back.captures, result) {
            self.open(at, opening, number as u32, key.clone());
        }
    }

    fn open(&mut self, at: At, opening: Opening, fd: u32, key: Key) {
        let row = *self.by_key.entry(key).or_insert_with_key(|(call, site)| {
            self.rows.push(Tally {
                call: call.clone(),
                site: site.clone(),
                opened: 0,
            });
            self.rows.len() - 1
        });
        self.rows[row].opened += 1;
        let table = self.processes.entry(at.process).or_default();
        if opening.replaces {
            table.close(fd);
        }
        if table.open.len() < MOST {
            let since = at.time;
            table.open.insert(fd, Open { row, since });
        }
    }

    /// Returns what is still open, compared with what the processes themselves have.
    pub fn finish(mut self, held: &[(i32, Held)]) -> StillOpen {
        let [first, last] = self.times.unwrap_or_default();
        let mut all = StillOpen {
            watched: last.saturating_sub(first),
            opened: self.rows.iter().map(|row| row.opened).sum(),
            limit: held.iter().filter_map(|(_, held)| held.limit).min(),
            ..StillOpen::default()
        };
        let nothing = Held::default();
        let mut open: Vec<Vec<(Duration, String)>> = vec![Vec::new(); self.rows.len()];
        for (pid, table) in &mut self.processes {
            let held = held.iter().find(|(of, _)| of == pid);
            table.settle(held.map_or(&nothing, |(_, held)| held), &mut all, &mut open);
        }
        for (tally, mut open) in self.rows.into_iter().zip(open) {
            open.sort();
            let Some((oldest, example)) = open.first().cloned() else {
                continue;
            };
            all.open += open.len() as u64;
            all.rows.push(Row {
                leaks: leaks(&open, tally.opened, first, all.watched),
                call: tally.call,
                site: tally.site,
                opened: tally.opened,
                open: open.len() as u64,
                oldest: last.saturating_sub(oldest),
                example,
            });
        }
        let key = |row: &Row| (Reverse(row.leaks), Reverse(row.open), row.site.clone());
        all.rows.sort_by_cached_key(key);
        all
    }
}

/// Whether a line leaks: some that were opened in each part of the time are still open.
fn leaks(open: &[(Duration, String)], opened: u64, first: Duration, watched: Duration) -> bool {
    let mut parts = [false; PARTS];
    for (since, _) in open {
        parts[part_of(*since, first, watched)] = true;
    }
    let most_stay = open.len() as u64 * STAY >= opened;
    watched >= LEAST_WATCH && most_stay && parts.iter().all(|any| *any)
}

/// Returns the part of the time that a moment is in, from 0 on: one of [`PARTS`].
pub(crate) fn part_of(at: Duration, first: Duration, watched: Duration) -> usize {
    let share = at.saturating_sub(first).as_secs_f64() / watched.as_secs_f64().max(1e-9);
    ((share * PARTS as f64) as usize).min(PARTS - 1)
}

impl Table {
    fn close(&mut self, fd: u32) {
        // The number is limited, because a guest may report any number of calls.
        if self.open.remove(&fd).is_none() && self.closed_before.len() < MOST {
            self.closed_before.insert(fd);
        }
    }

    fn close_all(&mut self, first: u32, last: u32) {
        if last.saturating_sub(first) > MANY {
            self.open.retain(|fd, _| !(first..=last).contains(fd));
        }
        let end = last.min(first.saturating_add(MANY));
        (first..=end).for_each(|fd| self.close(fd));
    }

    /// Compares what events say with what the process had and has, and adds what is open to its row.
    fn settle(&mut self, held: &Held, all: &mut StillOpen, open: &mut [Vec<(Duration, String)>]) {
        all.before += held.before.len() as u64;
        all.before_closed += held.before.intersection(&self.closed_before).count() as u64;
        if let Some(after) = &held.after {
            let seen = self.open.len();
            let is_there = |fd: &u32| held.leaving.contains(fd) || after.contains_key(fd);
            self.open.retain(|fd, _| is_there(fd));
            all.closed_unseen += (seen - self.open.len()) as u64;
            let known = |fd: &&u32| self.open.contains_key(fd) || held.before.contains(fd);
            let there = held.leaving.iter().filter(|fd| after.contains_key(fd));
            all.came_unseen += there.filter(|fd| !known(fd)).count() as u64;
        }
        for (fd, one) in &self.open {
            let what = held.after.as_ref().and_then(|after| after.get(fd));
            open[one.row].push((one.since, what.cloned().unwrap_or_default()));
        }
    }
}

#[cfg(test)]
mod tests;
