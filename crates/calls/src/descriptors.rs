//! Descriptors that were opened while we watched and are still open, by system call and script line.
//!
//! A descriptor is a number of its process, and a number is used again. What is open follows from the order of events:
//!
//! ```text
//!   openat ─► call … return = 5       5 is open from its return on: nobody can name it before
//!   close(5) ─► call …                5 is closed from its call on: the kernel gives the number away before the return
//! ```
//!
//! What that misses the process's own table shows at the end (`/proc/PID/fd`, [`Held`]): what is not there any more was closed
//! unseen (by an exec, by io_uring), and what is there and was never seen came unseen (by io_uring, from another process by
//! `SECCOMP_IOCTL_NOTIF_ADDFD`, with an event of fanotify, by a call of a place that is not hooked).

mod effect;
pub mod names;

pub use effect::{Opening, all};

use crate::event::{At, Call, Return};
use effect::Effect;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Descriptors of one process that are remembered: the kernel's own limit (`fs.nr_open`) unless somebody has raised it.
const MOST: usize = 1 << 20;
/// Descriptors of one `close_range` that are looked at one by one.
const MANY: u32 = 1 << 16;
/// Whether a line leaks is told only after so long a time of watching.
pub const LEAST_WATCH: Duration = Duration::from_secs(10);
/// Equal parts of the time, each of which a leak has opened some in that are still open: what was opened for good at a
/// program's first steps, and what requests have open at the end, is of one of them.
pub const PARTS: usize = 4;
/// Of those that a leak opened at least one of so many is still open.
const STAY: u64 = 2;

/// The descriptors that a process has, as the kernel lists them.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Descriptors that the process had when it was opened.
    pub before: BTreeSet<u32>,
    /// Descriptors that it had when leaving it began: what it opens from then on until the hooks are out is seen.
    pub leaving: BTreeSet<u32>,
    /// Descriptors that it had when the hooks were out, with what each is; `None` for a process that ended. What it has opened
    /// and closed since then is not seen.
    pub after: Option<BTreeMap<u32, String>>,
    /// How many it may have (the soft `RLIMIT_NOFILE`).
    pub limit: Option<u64>,
}

/// The numbers of the descriptors that a process has, as the kernel lists them; `None` if it is gone.
pub(crate) fn numbers(pid: i32) -> Option<BTreeSet<u32>> {
    let descriptors = process::proc_file::descriptors(pid).ok()?;
    Some(descriptors.map(|one| one.number).collect())
}

/// A descriptor that was opened while we watched.
#[derive(Clone, Copy, Debug)]
struct Open {
    row: usize,
    since: Duration,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Table {
    open: HashMap<u32, Open>,
    /// Descriptors that it had before we came and that were seen closed.
    closed_before: BTreeSet<u32>,
}

/// How many descriptors one system call has opened on one script line.
#[derive(Debug)]
struct Tally {
    call: String,
    line: String,
    opened: u64,
}

/// A row of what is still open.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The system call, as `-c` shows it.
    pub call: String,
    /// The script line; empty where there is none.
    pub line: String,
    /// How many descriptors the system call opened on this line.
    pub opened: u64,
    /// How many of those are still open.
    pub open: u64,
    /// How long the oldest of them has been open.
    pub oldest: Duration,
    /// Whether the line leaks: some of each part of the time ([`PARTS`]) are still open, and of all at least half.
    pub leaks: bool,
    /// What the oldest is; empty = the process has ended, or it is a recording.
    pub example: String,
}

/// What is still open at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StillOpen {
    /// By system call and line: those that leak first, then by how many are open. Rows with none are left out.
    pub rows: Vec<Row>,
    /// How many were opened while we watched.
    pub opened: u64,
    /// How many of those that were opened while we watched are still open.
    pub open: u64,
    /// How many the processes had open when we came.
    pub before: u64,
    /// How many of those that they had before were seen closed.
    pub before_closed: u64,
    /// How many were closed by no call that we saw.
    pub closed_unseen: u64,
    /// How many came to be open by no call that we saw.
    pub came_unseen: u64,
    /// How long it was watched, from the first event to the last.
    pub watched: Duration,
    /// The fewest that one of the processes may have; `None` = not known.
    pub limit: Option<u64>,
}

/// The descriptors that are open by what the calls of one run have said so far; [`Descriptors::finish`] compares them with what the kernel lists.
/// Calls must be given in the order of time, or a number that is used again is counted for the wrong line.
#[derive(Debug, Default)]
pub struct Descriptors {
    processes: HashMap<i32, Table>,
    rows: Vec<Tally>,
    by_key: HashMap<(String, String), usize>,
    times: Option<[Duration; 2]>,
}

impl Descriptors {
    /// Notes that a call begins, and closes what it closes. Returns what it will have opened when it returns, if it opens anything.
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

    /// Notes what a call has opened that returns. `key` is its row: the call, and the line.
    pub fn leave(&mut self, at: At, opening: Opening, back: &Return, key: (String, String)) {
        let result = back.returned.rax;
        if (result as i32) < 0 {
            // An error.
            return;
        }
        for number in opening.numbers(&back.captures, result) {
            self.open(at, opening, number as u32, key.clone());
        }
    }

    fn open(&mut self, at: At, opening: Opening, fd: u32, key: (String, String)) {
        let row = *self.by_key.entry(key).or_insert_with_key(|(call, line)| {
            self.rows.push(Tally {
                call: call.clone(),
                line: line.clone(),
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

    /// What is still open, with what the processes themselves have.
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
                line: tally.line,
                opened: tally.opened,
                open: open.len() as u64,
                oldest: last.saturating_sub(oldest),
                example,
            });
        }
        let key = |row: &Row| (Reverse(row.leaks), Reverse(row.open), row.line.clone());
        all.rows.sort_by_cached_key(key);
        all
    }
}

/// Whether a line leaks: some that were opened in each part of the time are still open.
fn leaks(open: &[(Duration, String)], opened: u64, first: Duration, watched: Duration) -> bool {
    let mut parts = [false; PARTS];
    for (since, _) in open {
        let share = since.saturating_sub(first).as_secs_f64() / watched.as_secs_f64().max(1e-9);
        parts[((share * PARTS as f64) as usize).min(PARTS - 1)] = true;
    }
    let most_stay = open.len() as u64 * STAY >= opened;
    watched >= LEAST_WATCH && most_stay && parts.iter().all(|any| *any)
}

impl Table {
    fn close(&mut self, fd: u32) {
        // A guest may say any number of any calls.
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

    /// Holds what events say against what the process had and has; adds what is open to its row.
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
