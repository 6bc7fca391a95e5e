//! Whether a process stands still for good: each of its threads waits without a time limit for what only the process itself can give.
//!
//! Who would have to give it need not be known. A thread that sleeps on a word of its process's own memory (futex(2)) is woken by another
//! thread of that process, by a signal, or by its time limit, and by nothing else. So if all threads sleep so at one moment, none of them
//! wakes another. That they do is shown by all of them being seen asleep, and then none of them having run since
//! ([`Asleep::sleeps_on`]).

use std::collections::HashSet;

use process::asleep::Asleep;
use process::stop::thread_ids;
use process::wait::Wait;

use super::stack::Stack;
use super::state::What;

/// Whether a process stands still, of which these are the threads.
pub(super) fn is(pid: i32, stacks: &[Stack]) -> bool {
    let waits: Option<Vec<&Wait>> = stacks.iter().map(own).collect();
    let Some(waits) = waits.filter(|waits| !waits.is_empty()) else {
        return false;
    };
    let sleeps = |(stack, wait): (&Stack, &Wait)| {
        let asleep = Asleep::in_kernel(pid, stack.thread.tid)?;
        let is_it =
            asleep.call().number == wait.number && asleep.call().arguments == wait.arguments;
        is_it.then_some(asleep)
    };
    let all: Option<Vec<Asleep>> = stacks.iter().zip(waits).map(sleeps).collect();
    let are_all = |asleep: &[Asleep]| {
        let known: HashSet<i32> = asleep.iter().map(Asleep::tid).collect();
        let there = thread_ids(pid).unwrap_or_default();
        there.iter().all(|tid| known.contains(tid)) && !there.is_empty()
    };
    all.is_some_and(|all| are_all(&all) && all.iter().all(Asleep::sleeps_on))
}

/// Returns the wait of a thread, if it is one without a time limit that only its process ends.
fn own(stack: &Stack) -> Option<&Wait> {
    let state = stack.state.as_ref()?;
    let wait = state.wait.as_ref()?;
    // The kernel wakes whoever waits for the end of a thread by a word that processes could share.
    let is_end = state
        .held
        .as_ref()
        .is_some_and(|held| held.what == What::End);
    let is_own = wait.futex.is_some_and(|futex| !futex.shared || is_end);
    (is_own && !wait.timed && !state.stopped).then_some(wait)
}
