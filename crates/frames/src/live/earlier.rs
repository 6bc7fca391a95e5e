//! What the threads of a process did just before its processors were interrupted. Used by `running` and `sleepers`.
//!
//! It takes a while until all threads have been asked, so what a thread does when it is asked after the interrupts may have begun since: one
//! that sleeps a short time has woken by then, and wants a processor.

use std::collections::HashMap;

use process::stop::{any_runs, thread_state};

use super::sleepers::Sleepers;

/// Threads of a process that are asked, at most, so that no processor is interrupted in vain.
const MOST_ASKED: usize = 64;

/// The letters of the states of threads.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Of those that were not known to sleep.
    letters: HashMap<i32, char>,
    threads: usize,
    is_any_gone: bool,
}

impl Earlier {
    /// Asks those of the threads that are not `known` to sleep.
    pub(super) fn of(pid: i32, tids: &[i32], known: &Sleepers) -> Earlier {
        let others: Vec<i32> = tids
            .iter()
            .copied()
            .filter(|tid| !known.has(*tid))
            .collect();
        let letters = others.iter();
        let letters = letters.filter_map(|tid| Some((*tid, thread_state(pid, *tid)?)));
        let letters: HashMap<i32, char> = letters.collect();
        Earlier {
            is_any_gone: letters.len() < others.len(),
            letters,
            threads: tids.len(),
        }
    }

    /// Whether one of the threads was gone.
    pub(super) fn is_any_gone(&self) -> bool {
        self.is_any_gone
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

    #[test]
    fn who_slept_is_told_apart_from_who_wanted_a_processor() {
        let letters = [(1, 'R'), (2, 'S'), (3, 'D'), (4, 'Z'), (5, 'S')];
        let earlier = Earlier {
            letters: letters.into_iter().collect(),
            threads: 5,
            is_any_gone: false,
        };
        let slept = (0..7).filter(|tid| earlier.slept(*tid));
        assert_eq!(slept.collect::<Vec<_>>(), [2, 3, 5]);
        assert!(earlier.wanted_processor(1) && !earlier.wanted_processor(2));
        assert!(earlier.may_run(std::process::id() as i32));
    }
}
