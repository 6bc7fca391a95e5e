//! Whether a process stands still for good: each of its threads waits without a time limit for what only the process itself can give.
//! Used by `in_turn`, and by `frames::live::standstill`.
//!
//! Who would have to give it need not be known. A thread that sleeps on a word of its process's own memory (futex(2)) is woken by another
//! thread of that process, by a signal, or by its time limit, and by nothing else. So if all threads sleep so at one moment, none of them
//! wakes another. That they do is shown by all of them being seen asleep, and then none of them having run since
//! ([`Asleep::sleeps_on`]).

use std::collections::HashSet;

use vm::{Fault, Memory};

use crate::asleep::Asleep;
use crate::stop::thread_ids;
use crate::wait::Waits;

/// The most threads of a process that nobody has named which are looked at: its number is its own choice.
const MOST: usize = 2048;

/// Memory of which nothing is read: for waits of processes that nobody has named, whose lists of descriptors are not looked into.
pub(crate) struct Nothing;

impl Memory for Nothing {
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { at })
    }
}

/// Whether all threads of a process sleep at one moment, each in a call that `is_own`: one that only its process ends.
pub fn is(pid: i32, is_own: &mut dyn FnMut(&Asleep) -> bool) -> bool {
    let Ok(threads) = thread_ids(pid) else {
        return false;
    };
    let mut all = Vec::with_capacity(threads.len());
    for tid in threads {
        match Asleep::in_kernel(pid, tid).filter(|asleep| is_own(asleep)) {
            Some(asleep) => all.push(asleep),
            None => return false,
        }
    }
    let known: HashSet<i32> = all.iter().map(Asleep::tid).collect();
    let there = thread_ids(pid).unwrap_or_default();
    let are_all = !there.is_empty() && there.iter().all(|tid| known.contains(tid));
    are_all && all.iter().all(Asleep::sleeps_on)
}

/// Whether a process stands still of which nothing is known but what the kernel shows: of that, a thread that waits for the end of another
/// one looks as if another process could wake it. One of very many threads is not said to.
pub(crate) fn by_the_kernel(pid: i32) -> bool {
    if thread_ids(pid).is_ok_and(|threads| threads.len() > MOST) {
        return false;
    }
    let mut waits = Waits::of(pid, &Nothing);
    is(pid, &mut |asleep| {
        let wait = waits.wait(asleep.tid(), asleep.call(), None);
        !wait.timed && wait.futex.is_some_and(|futex| !futex.shared)
    })
}
