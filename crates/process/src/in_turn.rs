//! Whether a process that is waited for waits in turn: a child whose end is waited for, or the only process that has the other end of a pipe
//! or socket. It waits for somebody to read its pipe, or to write to it, and nobody but the process that waits for it can. Then neither of
//! them goes on.

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
    // Many threads may wait for the same process, or each for one of its own.
    let mut known: HashMap<(i32, Duration), Option<String>> = HashMap::new();
    for wait in waits.iter_mut() {
        let is_one = is_one(wait);
        for others in &mut wait.others {
            let child = only_child(others).map(|child| (child, Duration::ZERO));
            let at_end = || only_end(others).filter(|_| is_one).map(|end| (end, SLEPT));
            let Some(asked) = child.or_else(at_end) else {
                continue;
            };
            if !known.contains_key(&asked) && since.elapsed() > LONGEST {
                continue;
            }
            let in_turn_for = known
                .entry(asked)
                .or_insert_with(|| awaits(asked, pid, DEEPEST));
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

/// Returns what the only thread of a process waits for, and has for so long at least, if nobody but process `of` can bring it about: `write:
/// pipe, descriptor 1`.
fn awaits((pid, least): (i32, Duration), of: i32, depth: u32) -> Option<String> {
    let [tid] = thread_ids(pid).ok()?[..] else {
        return None;
    };
    let call = InCall::read(pid, tid).ok()??;
    let mut wait = Waits::of(pid, &Nothing).wait(tid, &call, slept_for(pid, tid));
    if least > wait.asleep.unwrap_or_default() || wait.timed || wait.ends_in.is_some() {
        return None;
    }
    others::find(pid, &mut [&mut wait]);
    if is_one(&wait) && wait.others.iter().filter_map(only_end).any(|end| end == of) {
        return Some(format!("{}: {}", wait.call?, wait.on[0]));
    }
    let child = wait.others.iter().find_map(only_child)?;
    awaits((child, least), of, depth.checked_sub(1)?)
}
