//! Calls of one thread added up by group.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::functions::{GROUPS, Role};
use super::{Call, What};

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
struct Stretch {
    group: &'static str,
    start: u64,
    end: u64,
    calls: u64,
    bytes: u64,
}

/// Adds up the calls of a thread, which come in the order of their ends. Of calls of a group that lie in one another only the outermost counts: `PQexec`
/// is `PQsendQuery` and `PQgetResult` inside.
pub fn of(calls: impl Iterator<Item = Call>) -> Vec<Sum> {
    let mut stretches = stretches(calls);
    // The outer of two that begin together first.
    stretches.sort_by_key(|stretch| (stretch.start, std::cmp::Reverse(stretch.end)));
    let mut sums: BTreeMap<usize, Sum> = BTreeMap::new();
    let mut ends: HashMap<&str, u64> = HashMap::new();
    for stretch in stretches {
        let end = ends.entry(stretch.group).or_default();
        if stretch.end <= *end && *end != 0 {
            continue;
        }
        let place = GROUPS.iter().position(|group| *group == stretch.group);
        let sum = sums.entry(place.unwrap_or(GROUPS.len())).or_default();
        sum.group = stretch.group;
        sum.calls += stretch.calls;
        sum.time_ns += stretch.end.saturating_sub(stretch.start.max(*end));
        sum.bytes = sum.bytes.saturating_add(stretch.bytes);
        *end = stretch.end;
    }
    sums.into_values().collect()
}

/// SQLITE_ROW: the execution goes on (sqlite3.h).
const ROW: i32 = 100;

fn stretches(calls: impl Iterator<Item = Call>) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    // Queries that were sent on a connection, and statements that have rows left.
    let mut sent: HashMap<u64, u64> = HashMap::new();
    let mut running: HashSet<u64> = HashSet::new();
    for call in calls {
        let What::Of {
            function,
            bytes,
            subject,
            result,
        } = call.what
        else {
            continue;
        };
        let (start, calls) = match function.role {
            Role::Whole => (call.start, 1),
            Role::Part => (call.start, 0),
            Role::Sends => {
                sent.insert(subject, call.start);
                (call.start, 1)
            }
            Role::Answers => match sent.remove(&subject) {
                // From its sending on.
                Some(start) => (start, 1),
                None => (call.start, 0),
            },
            Role::Steps => {
                let begins = !running.contains(&subject);
                if result == ROW {
                    running.insert(subject);
                } else {
                    running.remove(&subject);
                }
                (call.start, u64::from(begins))
            }
            Role::Resets => {
                running.remove(&subject);
                (call.start, 0)
            }
        };
        stretches.push(Stretch {
            group: function.group,
            start,
            end: call.end,
            calls,
            bytes,
        });
    }
    stretches
}
