//! Calls of one thread added up by group. Used by `counters` and `rows`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::call::{Call, What};
use super::functions::{GROUPS, Role, WAITS};

/// What a thread has called of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// The group of functions, by its name.
    pub group: &'static str,
    /// How many calls of the group there were; those inside another call of the group do not count.
    pub calls: u64,
    /// How long they took, in nanoseconds.
    pub time_ns: u64,
    /// Bytes that they have moved, or got.
    pub bytes: u64,
}

/// A stretch of time in a group, with what it counts for.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub group: &'static str,
    pub start: u64,
    pub end: u64,
    /// When the call began that ends it: later than `start` where it is the answer to a query that was sent before.
    call: u64,
    pub calls: u64,
    pub bytes: u64,
    /// What of its time is of no other stretch of its group, in nanoseconds.
    pub time: u64,
    /// What of its time is of no other stretch of any group: of two within one another the outer one has it, but what waits within SQLite, which works on
    /// the thread itself, has its own.
    pub outer: u64,
    /// What of `outer` such waits have.
    pub waited: u64,
    /// What it is about and the line that has made it, as numbers of `texts`.
    pub about: u32,
    pub line: u32,
}

/// Adds up stretches by group.
pub fn of(stretches: &[Stretch]) -> Vec<Sum> {
    let mut sums: BTreeMap<usize, Sum> = BTreeMap::new();
    for stretch in stretches {
        let place = GROUPS.iter().position(|known| *known == stretch.group);
        let sum = sums.entry(place.unwrap_or(GROUPS.len())).or_default();
        sum.group = stretch.group;
        sum.calls += stretch.calls;
        sum.bytes = sum.bytes.saturating_add(stretch.bytes);
        sum.time_ns += stretch.time;
    }
    sums.into_values().collect()
}

/// The stretches of a thread's calls, which come in the order of their ends; they are answered in that of their beginnings. Of calls of a group that lie in one
/// another only the outermost counts: `PQexec` is `PQsendQuery` and `PQgetResult` inside. Queries that are under way at the same time, on two connections,
/// count each, and their time once. What waits within a call of another group is that call's waiting; SQLite's own is processor time, so what it waits for
/// is told.
pub fn counted(calls: impl Iterator<Item = Call>) -> Vec<Stretch> {
    let mut stretches = stretches(calls);
    stretches.sort_by_key(|stretch| (stretch.start, Reverse(stretch.end)));
    let mut working = 0;
    stretches.retain(|stretch| {
        let waits = WAITS.contains(&stretch.group);
        if !waits && stretch.group != ON_THREAD {
            working = stretch.end.max(working);
        }
        !(waits && stretch.end <= working)
    });
    // The outer of two calls that begin together first.
    stretches.sort_by_key(|stretch| (stretch.call, Reverse(stretch.end)));
    let mut ends: HashMap<&str, u64> = HashMap::new();
    for stretch in &mut stretches {
        let end = ends.entry(class(stretch.group)).or_default();
        if stretch.end <= *end && *end != 0 {
            (stretch.calls, stretch.bytes) = (0, 0);
        } else {
            *end = stretch.end;
        }
    }
    stretches.sort_by_key(|stretch| (stretch.start, Reverse(stretch.end)));
    times(&mut stretches);
    stretches.retain(|stretch| stretch.calls != 0 || stretch.time != 0);
    stretches
}

/// The group whose calls work on the thread that makes them.
const ON_THREAD: &str = "sqlite";

/// Shares out the time of stretches, which come in the order of their beginnings.
fn times(stretches: &mut [Stretch]) {
    let mut ends: HashMap<&str, u64> = HashMap::new();
    // The stretch that has the time until `last`.
    let (mut last, mut owner) = (0, None);
    for at in 0..stretches.len() {
        let stretch = &mut stretches[at];
        let end = ends.entry(class(stretch.group)).or_default();
        stretch.time = stretch.end.saturating_sub(stretch.start.max(*end));
        *end = stretch.end.max(*end);
        if stretch.end > last {
            stretch.outer = stretch.end - stretch.start.max(last);
            (last, owner) = (stretch.end, Some(at));
        } else if WAITS.contains(&stretch.group)
            && let Some(owner) = owner.filter(|owner| stretches[*owner].group == ON_THREAD)
        {
            let time = stretches[at].time;
            stretches[at].outer = time;
            stretches[owner].waited += time;
        }
    }
}

/// Groups whose calls lie in one another: the VM sleeps by waiting for a condition.
fn class(group: &'static str) -> &'static str {
    match WAITS.contains(&group) {
        true => "waits",
        false => group,
    }
}

/// SQLITE_ROW: the execution goes on (sqlite3.h).
const ROW: i32 = 100;

fn stretches(calls: impl Iterator<Item = Call>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    // Queries that were sent on a connection, by the place of their stretch, and statements that have rows left.
    let mut sent: HashMap<u64, usize> = HashMap::new();
    let mut running: HashSet<u64> = HashSet::new();
    for call in calls {
        let What::Of(made) = call.what else {
            continue;
        };
        let mut stretch = Stretch {
            group: made.function.group,
            start: call.start,
            end: call.end,
            call: call.start,
            calls: 0,
            bytes: made.bytes,
            time: 0,
            outer: 0,
            waited: 0,
            about: made.about,
            line: made.line,
        };
        match made.function.role {
            Role::Whole => stretch.calls = 1,
            Role::Part => {}
            Role::Sends => {
                sent.insert(made.subject, stretches.len());
                stretch.calls = 1;
            }
            Role::Answers => {
                // From its sending on, which counts no more.
                if let Some(sending) = sent.remove(&made.subject) {
                    let sending = &mut stretches[sending];
                    sending.calls = 0;
                    (stretch.start, stretch.calls) = (sending.start, 1);
                    (stretch.about, stretch.line) = (sending.about, sending.line);
                }
            }
            Role::Steps => {
                stretch.calls = u64::from(!running.contains(&made.subject));
                if made.result == ROW {
                    running.insert(made.subject);
                } else {
                    running.remove(&made.subject);
                }
            }
            Role::Resets => {
                running.remove(&made.subject);
            }
        }
        stretches.push(stretch);
    }
    stretches
}
