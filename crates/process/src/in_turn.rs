//! Whether a process that is waited for waits in turn: a child whose end is waited for, or the only process that has the other end of a pipe
//! or socket. It waits for somebody to read its pipe, or to write to it, and nobody but the process that waits for it can.
//! Used by `frames::live::open`.
//!
//! Both wait without a time limit. Whether another thread of the first one will read or write is not known: where it has any, that its other
//! one waits to be written to is not told, because a helper that waits for its next request does so, and that it waits to be read only
//! when it has for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::asleep::Asleep;
use crate::interrupted::InCall;
use crate::standstill::{self, Nothing};
use crate::stop::{thread_ids, thread_state};
use crate::wait::others::{self, Other, Others, Role};
use crate::wait::{Wait, Waits, slept_for};

/// How many children of children are followed.
const DEEPEST: u32 = 4;
/// How long processes are asked, after which no other is: each may take a look at all processes of the machine.
const LONGEST: Duration = Duration::from_millis(300);
/// How long the process at the other end must have slept. Two that talk to each other wait in turn all the time, but not at the same moment: of
/// this one it shows that it slept already when the first one was seen asleep, which is a search among the descriptors of all processes
/// and [`LONGEST`] ago at most. Where the kernel does not say how long it has slept ([`slept_for`]), it is shown otherwise: it is seen
/// asleep, then the first one in the same call as before, and then that it has slept on.
const SLEPT: Duration = Duration::from_secs(1);

/// Notes it in the waits of process `pid`, whose [others](others::find) are known, where it waits for one other process, and that waits in
/// turn for what this process alone can do; and where it waits for the end of one child, and that [stands still](standstill).
pub fn note(pid: i32, waits: &mut [&mut Wait]) {
    note_by(pid, waits, &slept_for);
}

/// How long a thread of a process has slept, as the kernel says.
type Slept<'a> = &'a dyn Fn(i32, i32) -> Option<Duration>;

fn note_by(pid: i32, waits: &mut [&mut Wait], slept: Slept) {
    let since = Instant::now();
    let alone = thread_ids(pid).is_ok_and(|threads| threads.len() == 1);
    let at_least = if alone { Duration::ZERO } else { SLEPT };
    // Many threads may wait for the same process, or each for one of its own.
    let mut known: HashMap<(i32, Duration, Call), Option<String>> = HashMap::new();
    let mut stands: HashMap<i32, Option<Other>> = HashMap::new();
    for wait in waits.iter_mut() {
        if wait.timed {
            continue;
        }
        let is_one = is_one(wait);
        let of = Waiting {
            pid,
            alone,
            call: (wait.number, wait.arguments),
        };
        for others in &mut wait.others {
            let child = only_child(others).map(|child| (child, at_least));
            let at_end = || only_end(others).filter(|_| is_one).map(|end| (end, SLEPT));
            let Some(asked) = child.or_else(at_end) else {
                continue;
            };
            // Whether it waits in turn is asked of this call, in which another thread may not be.
            let key = (asked.0, asked.1, of.call);
            if !known.contains_key(&key) && since.elapsed() > LONGEST {
                continue;
            }
            let in_turn_for = known
                .entry(key)
                .or_insert_with(|| awaits(asked, of, DEEPEST, slept));
            others.in_turn_for.clone_from(in_turn_for);
            others.in_turn = others.in_turn_for.is_some();
            let Some((child, _)) = child.filter(|_| !others.in_turn) else {
                continue;
            };
            if !stands.contains_key(&child) && since.elapsed() > LONGEST {
                continue;
            }
            let standing = stands
                .entry(child)
                .or_insert_with(|| standing(child, DEEPEST));
            others.stands.clone_from(standing);
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

/// Number and arguments of a system call.
type Call = (i64, [u64; 6]);

/// The process that waits first.
#[derive(Clone, Copy)]
struct Waiting {
    pid: i32,
    /// Whether the thread that waits is its only one.
    alone: bool,
    /// The call in which it waits.
    call: Call,
}

impl Waiting {
    /// Whether one of its threads sleeps in that call now.
    fn is_in_call(self) -> bool {
        let threads = thread_ids(self.pid).unwrap_or_default();
        threads.iter().any(|tid| {
            let call = InCall::read(self.pid, *tid).ok().flatten();
            let is_in = call.is_some_and(|call| (call.number, call.arguments) == self.call);
            is_in && sleeps(self.pid, *tid)
        })
    }
}

/// Whether a thread sleeps now. One that was woken and has not got a processor yet does not, although it is in the same call and has run no more
/// than before.
fn sleeps(pid: i32, tid: i32) -> bool {
    matches!(thread_state(pid, tid), Some('S' | 'D'))
}

/// Returns the process that stands still, if it is this one, or a child for whose end it does nothing but wait.
fn standing(pid: i32, depth: u32) -> Option<Other> {
    if standstill::by_the_kernel(pid) {
        return Some(others::other(pid));
    }
    let [tid] = thread_ids(pid).ok()?[..] else {
        return None;
    };
    let call = InCall::read(pid, tid).ok()??;
    let mut wait = Waits::of(pid, &Nothing).wait(tid, &call, None);
    // Other waits would be searched for among the descriptors of all processes.
    if !matches!(wait.number, libc::SYS_wait4 | libc::SYS_waitid) {
        return None;
    }
    others::find(pid, &mut [&mut wait]);
    let child = wait.others.iter().find_map(only_child)?;
    standing(child, depth.checked_sub(1)?)
}

/// Returns what the only thread of a process waits for, and has for so long at least, if nobody but process `of` can bring it about: `write:
/// pipe, descriptor 1`.
fn awaits((pid, least): (i32, Duration), of: Waiting, depth: u32, slept: Slept) -> Option<String> {
    let [tid] = thread_ids(pid).ok()?[..] else {
        return None;
    };
    let call = InCall::read(pid, tid).ok()??;
    let mut wait = Waits::of(pid, &Nothing).wait(tid, &call, slept(pid, tid));
    if wait.timed || wait.asleep.is_some_and(|asleep| asleep < least) {
        return None;
    }
    let is_unknown = wait.asleep.is_none() && least != Duration::ZERO;
    let seen = || Asleep::in_kernel(pid, tid).filter(|asleep| *asleep.call() == call);
    let seen = if is_unknown { Some(seen()?) } else { None };
    others::find(pid, &mut [&mut wait]);
    let mut ends = wait.others.iter().filter_map(only_end);
    if is_one(&wait) && ends.any(|end| end == of.pid) {
        let may_tell = of.alone || WRITES.contains(&wait.number);
        let at_once =
            || seen.is_none_or(|asleep| of.is_in_call() && sleeps(pid, tid) && asleep.sleeps_on());
        (may_tell && at_once()).then_some(())?;
        return Some(format!("{}: {}", wait.call?, wait.on[0]));
    }
    let child = wait.others.iter().find_map(only_child)?;
    awaits((child, least), of, depth.checked_sub(1)?, slept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// A Python that waits for a byte of a `cat`, which waits for one of it.
    #[test]
    fn an_unknown_sleep_is_seen_otherwise() {
        let script = "import os, subprocess\n\
            cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
            print('ready', flush=True)\nos.read(cat.stdout.fileno(), 1)";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Debian's python3");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(said.map_while(Result::ok).any(|line| line == "ready"));
        let pid = child.id() as i32;
        let waits = |change: &dyn Fn(&mut Wait)| {
            let asleep = Asleep::in_kernel(pid, pid)?;
            let mut wait = Waits::of(pid, &Nothing).wait(pid, asleep.call(), None);
            others::find(pid, &mut [&mut wait]);
            change(&mut wait);
            Some(wait)
        };
        let told = |slept: Option<Duration>, change: &dyn Fn(&mut Wait)| {
            let mut wait = waits(change)?;
            note_by(pid, &mut [&mut wait], &|_, _| slept);
            wait.others.first()?.in_turn_for.clone()
        };
        let until = Instant::now() + Duration::from_secs(60);
        let as_it_is = |_: &mut Wait| {};
        // Both fall asleep a moment after what is said.
        let found = loop {
            match told(None, &as_it_is) {
                None => assert!(Instant::now() < until, "they never wait for each other"),
                Some(found) => break found,
            }
        };
        assert!(found.starts_with("read: pipe"), "{found}");
        assert_eq!(told(Some(SLEPT), &as_it_is), Some(found));
        assert_eq!(told(Some(SLEPT / 2), &as_it_is), None, "they may talk");
        // The first one has gone on meanwhile: it is in another call.
        let gone_on = |wait: &mut Wait| wait.arguments[2] += 1;
        assert_eq!(told(None, &gone_on), None);
        // What was found for one call is not said of another.
        let both = [&as_it_is as &dyn Fn(&mut Wait), &gone_on].map(waits);
        let [mut first, mut other] = both.map(|wait| wait.expect("it sleeps"));
        note_by(pid, &mut [&mut first, &mut other], &|_, _| None);
        assert!(first.others[0].in_turn && !other.others[0].in_turn);
        // It is in the call and does not sleep there.
        let of = Waiting {
            pid,
            alone: true,
            call: (first.number, first.arguments),
        };
        assert!(of.is_in_call());
        // SAFETY: it takes numbers, and the child is ours.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        while thread_state(pid, pid) != Some('T') {
            assert!(Instant::now() < until, "it never stops");
        }
        assert!(!of.is_in_call());
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
}
