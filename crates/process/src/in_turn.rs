//! Whether a process that is waited for waits in turn: a child whose end is waited for, or the only process that has the other end of a pipe
//! or socket. It waits for somebody to read its pipe, or to write to it, and nobody but the process that waits for it can.
//!
//! Both wait without a time limit. Whether another thread of the first one will read or write is not known: where it has any, that its other
//! one waits to be written to is not told, because a helper that waits for its next request does so, and that it waits to be read only
//! when it has for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vm::{Fault, Memory};

use crate::interrupted::InCall;
use crate::stop::thread_ids;
use crate::wait::others::{self, Others, Role};
use crate::wait::{Wait, Waits, slept_for};

/// How many children of children are followed.
const DEEPEST: u32 = 4;
/// How long processes are asked, after which no other is: each may take a look at all processes of the machine.
const LONGEST: Duration = Duration::from_millis(300);
/// How long the process at the other end must have slept. Two that talk to each other wait in turn all the time, but not at the same moment: of
/// this one it shows that it slept already when the first one was seen asleep, which is a search among the descriptors of all processes
/// and [`LONGEST`] ago at most.
const SLEPT: Duration = Duration::from_secs(1);

/// Nothing is read of the memory of the child, whose lists of descriptors are not looked into.
struct Nothing;

impl Memory for Nothing {
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { at })
    }
}

/// Notes it in the waits of process `pid`, whose [others](others::find) are known, where it waits for one other process, and that waits in
/// turn for what this process alone can do.
pub fn note(pid: i32, waits: &mut [&mut Wait]) {
    let since = Instant::now();
    let of = Waiting {
        pid,
        alone: thread_ids(pid).is_ok_and(|threads| threads.len() == 1),
    };
    let at_least = if of.alone { Duration::ZERO } else { SLEPT };
    // Many threads may wait for the same process, or each for one of its own.
    let mut known: HashMap<(i32, Duration), Option<String>> = HashMap::new();
    for wait in waits.iter_mut() {
        if wait.timed {
            continue;
        }
        let is_one = is_one(wait);
        for others in &mut wait.others {
            let child = only_child(others).map(|child| (child, at_least));
            let at_end = || only_end(others).filter(|_| is_one).map(|end| (end, SLEPT));
            let Some(asked) = child.or_else(at_end) else {
                continue;
            };
            if !known.contains_key(&asked) && since.elapsed() > LONGEST {
                continue;
            }
            let in_turn_for = known
                .entry(asked)
                .or_insert_with(|| awaits(asked, of, DEEPEST));
            others.in_turn_for.clone_from(in_turn_for);
            others.in_turn = others.in_turn_for.is_some();
        }
    }
}

/// Whether a wait is for a single descriptor: of several any one lets it go on.
fn is_one(wait: &Wait) -> bool {
    wait.on.len() == 1 && wait.more == 0
}

/// The one process that has the other end.
fn only_end(others: &Others) -> Option<i32> {
    let alone = others.role == Role::OtherEnd && !others.own && others.more == 0;
    match &others.known[..] {
        [end] if alone && others.whole => Some(end.pid),
        _ => None,
    }
}

/// The one child whose end is waited for.
fn only_child(others: &Others) -> Option<i32> {
    let is_child = matches!(others.role, Role::Child | Role::Children) && others.more == 0;
    match &others.known[..] {
        [child] if is_child && others.whole => Some(child.pid),
        _ => None,
    }
}

/// Calls that wait until somebody reads.
const WRITES: [i64; 5] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];

/// The process that waits first.
#[derive(Clone, Copy)]
struct Waiting {
    pid: i32,
    /// Whether the thread that waits is its only one.
    alone: bool,
}

/// Returns what the only thread of a process waits for, and has for so long at least, if nobody but process `of` can bring it about: `write:
/// pipe, descriptor 1`.
fn awaits((pid, least): (i32, Duration), of: Waiting, depth: u32) -> Option<String> {
    let [tid] = thread_ids(pid).ok()?[..] else {
        return None;
    };
    let call = InCall::read(pid, tid).ok()??;
    let mut wait = Waits::of(pid, &Nothing).wait(tid, &call, slept_for(pid, tid));
    if least > wait.asleep.unwrap_or_default() || wait.timed {
        return None;
    }
    others::find(pid, &mut [&mut wait]);
    let mut ends = wait.others.iter().filter_map(only_end);
    if is_one(&wait) && ends.any(|end| end == of.pid) {
        let may_tell = of.alone || WRITES.contains(&wait.number);
        may_tell.then_some(())?;
        return Some(format!("{}: {}", wait.call?, wait.on[0]));
    }
    let child = wait.others.iter().find_map(only_child)?;
    awaits((child, least), of, depth.checked_sub(1)?)
}
