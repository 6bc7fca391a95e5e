//! Calls of one thread added up by group. Used by `counters`.

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
    /// When the call began that ends it: later than `start` where it is the answer to a query that was sent before.
    call: u64,
    calls: u64,
    bytes: u64,
}

/// Adds up the calls of a thread, which come in the order of their ends. Of calls of a group that lie in one another only the outermost counts: `PQexec`
/// is `PQsendQuery` and `PQgetResult` inside. Queries that are under way at the same time, on two connections, count each, and their time once.
pub fn of(calls: impl Iterator<Item = Call>) -> Vec<Sum> {
    let mut stretches = stretches(calls);
    let mut sums: BTreeMap<usize, Sum> = BTreeMap::new();
    // The outer of two calls that begin together first.
    stretches.sort_by_key(|stretch| (stretch.call, std::cmp::Reverse(stretch.end)));
    let mut ends: HashMap<&str, u64> = HashMap::new();
    for stretch in &stretches {
        let end = ends.entry(stretch.group).or_default();
        if stretch.end <= *end && *end != 0 {
            continue;
        }
        *end = stretch.end;
        let sum = sum_of(&mut sums, stretch.group);
        sum.calls += stretch.calls;
        sum.bytes = sum.bytes.saturating_add(stretch.bytes);
    }
    stretches.sort_by_key(|stretch| stretch.start);
    ends.clear();
    for stretch in &stretches {
        let end = ends.entry(stretch.group).or_default();
        let time = stretch.end.saturating_sub(stretch.start.max(*end));
        *end = stretch.end.max(*end);
        sum_of(&mut sums, stretch.group).time_ns += time;
    }
    sums.into_values().collect()
}

/// The sum of a group, in the order in which groups are told.
fn sum_of<'a>(sums: &'a mut BTreeMap<usize, Sum>, group: &'static str) -> &'a mut Sum {
    let place = GROUPS.iter().position(|known| *known == group);
    let sum = sums.entry(place.unwrap_or(GROUPS.len())).or_default();
    sum.group = group;
    sum
}

/// SQLITE_ROW: the execution goes on (sqlite3.h).
const ROW: i32 = 100;

fn stretches(calls: impl Iterator<Item = Call>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    // Queries that were sent on a connection, by the place of their stretch, and statements that have rows left.
    let mut sent: HashMap<u64, usize> = HashMap::new();
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
                sent.insert(subject, stretches.len());
                (call.start, 1)
            }
            Role::Answers => match sent.remove(&subject) {
                // From its sending on, which counts no more.
                Some(sending) => {
                    stretches[sending].calls = 0;
                    (stretches[sending].start, 1)
                }
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
            call: call.start,
            calls,
            bytes,
        });
    }
    stretches
}
