//! Whether a child waits in turn for the process that waits for the child's end: for somebody to read its pipe, or to write to it. Then neither of
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
/// How long children are asked, after which no other is: each may take a look at all processes of the machine.
const LONGEST: Duration = Duration::from_millis(300);

/// Nothing is read of the memory of the child, whose lists of descriptors are not looked into.
struct Nothing;

impl Memory for Nothing {
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { at })
    }
}

/// Notes it in the waits of process `pid`, whose [others](others::find) are known, where it waits for the end of one child, and that waits in
/// turn for what this process alone can do.
pub fn note(pid: i32, waits: &mut [&mut Wait]) {
    let since = Instant::now();
    // Many threads may wait for the same child, or each for one of its own.
    let mut known: HashMap<i32, Option<String>> = HashMap::new();
    for others in waits.iter_mut().flat_map(|wait| wait.others.iter_mut()) {
        let Some(child) = only_child(others) else {
            continue;
        };
        if !known.contains_key(&child) && since.elapsed() > LONGEST {
            continue;
        }
        let in_turn_for = known
            .entry(child)
            .or_insert_with(|| awaits(child, pid, DEEPEST));
        others.in_turn_for.clone_from(in_turn_for);
        others.in_turn = others.in_turn_for.is_some();
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

/// Returns what the only thread of a process waits for, if nobody but process `of` can bring it about: `write: pipe, descriptor 1`.
fn awaits(pid: i32, of: i32, depth: u32) -> Option<String> {
    let [tid] = thread_ids(pid).ok()?[..] else {
        return None;
    };
    let call = InCall::read(pid, tid).ok()??;
    let mut wait = Waits::of(pid, &Nothing).wait(tid, &call, slept_for(pid, tid));
    others::find(pid, &mut [&mut wait]);
    // Of several descriptors any one lets it go on.
    let is_one = wait.on.len() == 1 && wait.more == 0;
    let is_of = |others: &Others| {
        let alone = others.known.len() == 1 && others.more == 0 && !others.own && others.whole;
        alone && others.role == Role::OtherEnd && others.known[0].pid == of
    };
    if is_one && wait.others.iter().any(is_of) {
        return Some(format!("{}: {}", wait.call?, wait.on[0]));
    }
    let child = wait.others.iter().find_map(only_child)?;
    awaits(child, of, depth.checked_sub(1)?)
}
