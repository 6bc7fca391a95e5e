//! What the threads of a process did just before its processors were interrupted. Used by `activity` and `running`.
//!
//! It takes a while until all threads have been asked, so what a thread does when it is asked after the interrupts may have begun since: one
//! that sleeps a short time has woken by then, and wants a processor.

use std::collections::{HashMap, HashSet};

use process::stop::{any_runs, thread_ids, thread_state};

use super::activity::Sleepers;

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
    /// Asks the threads that are not `known` to sleep.
    pub(super) fn of(pid: i32, known: &Sleepers) -> Earlier {
        let tids = thread_ids(pid).unwrap_or_default();
        let others = tids.iter().filter(|tid| !known.has(**tid));
        let letters = others.filter_map(|tid| Some((*tid, thread_state(pid, *tid)?)));
        Earlier {
            letters: letters.collect(),
            threads: tids.len(),
        }
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

    /// Returns the threads that were neither on a processor nor waited for one, but those that are `told`.
    pub(super) fn slept_beside(&self, told: &HashSet<i32>) -> Vec<i32> {
        let slept = |letter: char| !matches!(letter, 'R' | 'Z' | 'X');
        let all = self.letters.iter().filter(|(_, letter)| slept(**letter));
        let tids = all.map(|(tid, _)| *tid);
        tids.filter(|tid| !told.contains(tid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_slept_is_told_apart_from_who_wanted_a_processor() {
        let letters = [(1, 'R'), (2, 'S'), (3, 'D'), (4, 'Z'), (5, 'S')];
        let earlier = Earlier {
            letters: letters.into_iter().collect(),
            threads: 5,
        };
        let mut slept = earlier.slept_beside(&HashSet::from([5]));
        slept.sort_unstable();
        assert_eq!(slept, [2, 3]);
        assert!(earlier.wanted_processor(1) && !earlier.wanted_processor(2));
        assert!(earlier.may_run(std::process::id() as i32));
    }
}
