//! What is kept between two looks of many at one process: threads that have slept meanwhile. Used by `open`.

use std::collections::HashSet;
use std::time::Duration;

use process::room::Room;
use process::snapshot::Activity;

use super::activity;
use super::look::Look;
use super::sleepers::{Shown, Sleepers};
use super::stack::Stack;

/// How long a thread that sleeps on is not read again, at least.
const SHORTEST: Duration = Duration::from_secs(1);

/// The threads of a process are parted into so many groups. Each is kept a little longer than the one before, so that threads that were
/// first read in one look are not all read again in one look.
const GROUPS: u32 = 256;
const LONGER: Duration = Duration::from_millis(3);
/// So many times longer where looks stop nobody, and where so many sleep that to read them again would take more time than all the rest, as many
/// times as there are groups of so many; 30 seconds at most, because what a thread waits for may change while it sleeps on.
const SELDOM: u32 = 8;
const FEW: usize = 16;
const MOST_SELDOM: u32 = 17;

/// One look, and what is needed to begin the next one.
pub(super) struct Again {
    pub(super) look: Look,
    sleepers: Sleepers,
}

/// Threads that are not read in a look.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) stacks: Vec<(Stack, Room)>,
    pub(super) sleepers: Sleepers,
}

impl Kept {
    /// Keeps those threads that are `shown` to have slept on until now, but none that `ran`. Returns the others.
    pub(super) fn keep(&mut self, shown: Shown<'_>, ran: &HashSet<i32>) -> Vec<i32> {
        self.sleepers.forget(ran);
        self.sleepers.keep(shown, |_, _| true);
        let woken = self
            .stacks
            .extract_if(.., |(stack, _)| !self.sleepers.has(stack.thread.tid));
        woken.map(|(stack, _)| stack.thread.tid).collect()
    }
}

impl Again {
    pub(super) fn of(look: Look, sleepers: Sleepers) -> Again {
        Again { look, sleepers }
    }

    /// How many threads slept.
    pub(super) fn asleep(&self) -> usize {
        self.sleepers.len()
    }

    /// Returns the threads of process `pid` that have slept since they were read, and need not be read again yet. The main thread is not
    /// one of them, because what is wanted of the whole process is copied with it.
    pub(super) fn kept(self, pid: i32) -> Kept {
        self.kept_if(Shown::Asked, |tid, age| tid != pid && age < oldest(tid))
    }

    /// Returns the threads that are `shown` to have slept since they were read. Nothing is copied with one of them, and what they wait for is
    /// read again more seldom; but not of those of which a lock has gone from one holder to another, maybe.
    pub(super) fn kept_beside(self, shown: Shown<'_>) -> Kept {
        let groups = u32::try_from(self.sleepers.len() / FEW).unwrap_or(u32::MAX);
        let times = groups.clamp(SELDOM, MOST_SELDOM);
        let held = activity::with_holders(&self.look.stacks);
        self.kept_if(shown, |tid, age| {
            let times = if held.contains(&tid) { SELDOM } else { times };
            age < oldest(tid) * times
        })
    }

    fn kept_if(self, shown: Shown<'_>, wanted: impl Fn(i32, Duration) -> bool) -> Kept {
        let Again { look, mut sleepers } = self;
        sleepers.keep(shown, wanted);
        let is_kept = |stack: &Stack| {
            let slept = stack.parked.is_none() && stack.thread.activity != Activity::Ran;
            slept && sleepers.has(stack.thread.tid)
        };
        let stacks = look.stacks.into_iter().zip(look.rooms);
        let mut stacks: Vec<(Stack, Room)> = stacks.filter(|(stack, _)| is_kept(stack)).collect();
        // Of one that fell asleep again in that look the later stack is that of its sleep.
        stacks.dedup_by(|(later, of_later), (earlier, of_earlier)| {
            let is_same = later.thread.tid == earlier.thread.tid;
            if is_same {
                std::mem::swap(later, earlier);
                std::mem::swap(of_later, of_earlier);
            }
            is_same
        });
        Kept { stacks, sleepers }
    }
}

/// Returns how old what is known of a thread may be.
fn oldest(tid: i32) -> Duration {
    SHORTEST + LONGER * (tid as u32 % GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::open::{Live, Wanted};
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    const THREADS: usize = 20;
    const LIMIT: Duration = Duration::from_secs(60);

    /// Threads that sleep, and one that wakes up for a line and sleeps elsewhere then. Code of Debian's Python is unwound without rbp, which
    /// the kernel does not show of a thread that sleeps; one that needs it is stopped, and so read, in each look.
    fn start() -> Child {
        let script = format!(
            "import sys, threading\nnever = threading.Event()\ndef once():\n    sys.stdin.readline()\n    never.wait()\n\
             for target in [never.wait] * {THREADS} + [once]:\n    threading.Thread(target=target).start()\n\
             print('ready', flush=True)\nnever.wait()"
        );
        let mut command = Command::new("/usr/bin/python3");
        command
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("Debian's python3");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = said.map_while(Result::ok);
        assert!(said.any(|line| line == "ready"), "it never began");
        child
    }

    /// Looks again until at least so many threads were not read, and returns those.
    fn kept(live: &mut Live, count: usize) -> HashSet<i32> {
        let wanted = Wanted {
            states: true,
            ..Wanted::default()
        };
        let deadline = Instant::now() + LIMIT;
        loop {
            live.look_again(wanted).expect("it lives");
            let look = live.seen().expect("a look");
            assert_eq!(look.stacks.len(), THREADS + 2, "all are told in each look");
            if look.kept.len() >= count {
                return look.kept.clone();
            }
            assert!(Instant::now() < deadline, "{:?}", look.kept);
        }
    }

    #[test]
    fn a_thread_that_sleeps_on_is_not_read_again_and_one_that_woke_is() {
        let mut child = start();
        let pid = child.id() as i32;
        let mut live = Live::open(pid).expect("ours");
        let before = kept(&mut live, THREADS + 1);
        assert!(!before.contains(&pid), "the main thread is read each time");
        let lines = |live: &Live, tid: i32| {
            let stacks = &live.seen().expect("a look").stacks;
            let stack = stacks.iter().find(|stack| stack.thread.tid == tid);
            let scripts = stack.expect("it lives").scripts();
            scripts.map(|script| script.line).collect::<Vec<_>>()
        };
        let places: Vec<_> = before
            .iter()
            .map(|tid| (*tid, lines(&live, *tid)))
            .collect();
        let input = child.stdin.as_mut().expect("piped");
        input.write_all(b"go\n").expect("it reads");
        let deadline = Instant::now() + LIMIT;
        let moved = loop {
            kept(&mut live, THREADS);
            let elsewhere = places
                .iter()
                .filter(|(tid, place)| lines(&live, *tid) != *place);
            match elsewhere.count() {
                0 => assert!(Instant::now() < deadline, "nobody woke up"),
                moved => break moved,
            }
        };
        assert_eq!(moved, 1);
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
    /// Looks at a program that runs another one in its place for a line, until a function of that one is seen.
    fn seen_after_exec(program: &str, arguments: &[&str], function: &str) {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("Debian's own");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = said.map_while(Result::ok);
        assert!(said.any(|line| line == "ready"), "it never began");
        let pid = child.id() as i32;
        let mut live = Live::open(pid).expect("ours");
        let mut is_seen = |function: &str| {
            // In between it may have no VM yet, or another file at each look.
            if live.look_again(Wanted::default()).is_err() {
                return false;
            }
            let stacks = &live.seen().expect("a look").stacks;
            let mut scripts = stacks.iter().flat_map(Stack::scripts);
            scripts.any(|script| script.name.contains(function))
        };
        let mut until = |function: &str| {
            let deadline = Instant::now() + LIMIT;
            while !is_seen(function) {
                assert!(Instant::now() < deadline, "{function} is never seen");
                std::thread::yield_now();
            }
        };
        until("before");
        let input = child.stdin.as_mut().expect("piped");
        input.write_all(b"go\n").expect("it reads");
        until(function);
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    #[test]
    fn neither_a_stranger_with_its_id_nor_a_memory_that_is_gone_is_told_as_the_process() {
        let mut command = Command::new("sh");
        let script = "echo ready; read go; exec sh -c 'echo next; read end'";
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh runs");
        let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut line = || said.next().expect("it says more").expect("ASCII");
        assert_eq!(line(), "ready");
        let mut live = Live::open(child.id() as i32).expect("ours");
        live.look_again(Wanted::default()).expect("it lives");
        let input = child.stdin.as_mut().expect("piped");
        input.write_all(b"go\n").expect("it reads");
        assert_eq!(line(), "next");
        // As if it had ended, and this were another process with its id.
        live.start += 1;
        let failed = live.look_again(Wanted::default());
        assert!(failed.is_err_and(|error| error.is_left()));
        assert!(live.seen().is_none());
        // It is the same one, with another program.
        live.start -= 1;
        live.look_again(Wanted::default()).expect("it lives");
        assert!(live.seen().is_some());
        child.kill().expect("ours");
        child.wait().expect("ours");
        let failed = live.look_again(Wanted::default());
        assert!(failed.is_err_and(|error| error.is_left()));
        assert!(live.seen().is_none() && live.look(Wanted::default()).is_err());
    }

    const PYTHON: &str =
        "import os, sys\ndef within_python():\n    sys.stdin.read()\nwithin_python()";
    const RUBY: &str = "def within_ruby\n  STDIN.read\nend\nwithin_ruby";

    #[test]
    fn another_vm_in_the_same_process_is_read() {
        let python = format!(
            "def before\n  STDIN.gets\nend\nSTDOUT.puts 'ready'\nSTDOUT.flush\nbefore\nexec('/usr/bin/python3', '-c', {PYTHON:?})"
        );
        seen_after_exec("/usr/bin/ruby", &["-e", &python], "within_python");
        let ruby = format!(
            "import os, sys\ndef before():\n    sys.stdin.readline()\nprint('ready', flush=True)\nbefore()\nos.execv('/usr/bin/ruby', ['ruby', '-e', {RUBY:?}])"
        );
        seen_after_exec("/usr/bin/python3", &["-c", &ruby], "within_ruby");
    }
}
