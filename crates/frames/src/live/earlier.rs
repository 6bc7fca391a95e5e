//! What the threads of a process did just before its processors were interrupted. Used by `running` and `sleepers`.
//!
//! It takes a while until all threads have been asked, so what a thread does when it is asked after the interrupts may have begun since: one
//! that sleeps a short time has woken by then, and wants a processor.

use std::collections::HashMap;

use process::stop::{any_runs, thread_state};

use super::sleepers::Sleepers;
use super::thread_list::ThreadList;

/// Threads of a process that are asked, at most, so that no processor is interrupted in vain.
const MOST_ASKED: usize = 64;

/// The letters of the states of threads.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Of those that were not known to sleep.
    letters: HashMap<i32, char>,
    threads: usize,
}

impl Earlier {
    /// Asks those of the threads of the list that are not `known` to sleep. Where one of them is gone another one may have begun, which is then
    /// listed and asked, too.
    pub(super) fn of(pid: i32, list: &mut ThreadList, known: &Sleepers) -> Earlier {
        let mut earlier = Earlier::default();
        for _ in 0..2 {
            if !earlier.ask(pid, list.of(pid), known) {
                break;
            }
            list.forget();
        }
        earlier
    }

    /// Asks those of the threads that are neither `known` to sleep nor were asked before. Returns whether one is gone.
    fn ask(&mut self, pid: i32, tids: &[i32], known: &Sleepers) -> bool {
        self.threads = tids.len();
        let mut is_any_gone = false;
        for &tid in tids {
            if known.has(tid) || self.letters.contains_key(&tid) {
                continue;
            }
            match thread_state(pid, tid) {
                Some(letter) => drop(self.letters.insert(tid, letter)),
                None => is_any_gone = true,
            }
        }
        is_any_gone
    }

    /// Adds threads that were known to sleep, of which nothing is known any more.
    pub(super) fn add_asleep(&mut self, tids: impl Iterator<Item = i32>) {
        self.letters.extend(tids.map(|tid| (tid, 'S')));
    }

    /// The threads that were there and not known to sleep.
    pub(super) fn asked(&self) -> Vec<i32> {
        self.letters.keys().copied().collect()
    }

    /// Whether a thread was on a processor or waited for one.
    pub(super) fn wanted_processor(&self, tid: i32) -> bool {
        self.letters.get(&tid) == Some(&'R')
    }

    /// Whether a thread of the process may be on a processor. To ask thousands takes longer than interrupts do.
    pub(super) fn may_run(&self, pid: i32) -> bool {
        let wanted = self.letters.values().any(|letter| *letter == 'R');
        wanted || self.threads > MOST_ASKED || any_runs(pid)
    }

    /// Whether a thread was neither on a processor nor waited for one.
    pub(super) fn slept(&self, tid: i32) -> bool {
        let letter = self.letters.get(&tid);
        letter.is_some_and(|letter| !matches!(letter, 'R' | 'Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn who_slept_is_told_apart_from_who_wanted_a_processor() {
        let letters = [(1, 'R'), (2, 'S'), (3, 'D'), (4, 'Z'), (5, 'S')];
        let mut earlier = Earlier {
            letters: letters.into_iter().collect(),
            threads: 5,
        };
        let slept = (0..7).filter(|tid| earlier.slept(*tid));
        assert_eq!(slept.collect::<Vec<_>>(), [2, 3, 5]);
        assert!(earlier.wanted_processor(1) && !earlier.wanted_processor(2));
        assert!(earlier.may_run(std::process::id() as i32));
        earlier.add_asleep([8].into_iter());
        assert!(earlier.slept(8) && earlier.asked().contains(&8));
    }

    /// As many as before, so that the list alone does not show it.
    #[test]
    fn a_thread_that_began_when_another_one_ended_is_asked_in_the_same_look() {
        let script = "import sys, threading\nended = threading.Event()\none = None\n\
                      for line in sys.stdin:\n    ended.set()\n    if one: one.join()\n    ended = threading.Event()\n    \
                      one = threading.Thread(target=ended.wait, daemon=True)\n    one.start()\n    print(one.native_id, flush=True)";
        let mut command = Command::new("/usr/bin/python3");
        let piped = command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = piped.spawn().expect("Debian's python3");
        let mut input = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = said.map(|line| line.expect("text").parse::<i32>().expect("an id"));
        let (pid, mut list) = (child.id() as i32, ThreadList::default());
        let known = Sleepers::default();
        for _ in 0..4 {
            input.write_all(b"next\n").expect("it reads");
            let tid = said.next().expect("it says so");
            // One that has ended is there until the kernel has taken it away.
            let deadline = Instant::now() + Duration::from_secs(20);
            while std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) > 2 {
                assert!(Instant::now() < deadline, "the other one never ended");
                std::thread::yield_now();
            }
            let asked = Earlier::of(pid, &mut list, &known).asked();
            assert!(asked.contains(&tid) && asked.contains(&pid), "{asked:?}");
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
}
