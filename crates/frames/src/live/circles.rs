//! Finds threads that wait for each other, and threads that hold others up. Used by `open`, and by the crates `report`
//! and `lancet`.
//!
//! A thread that waits for another one which in turn waits for it, directly or through others, does not go on by itself. This is reported
//! only if it is certain that none of them has changed what it holds or wants while that was read. There are two proofs of it. A thread
//! that slept from before its stack was copied until its VM's data about it had been read has changed nothing
//! ([`State::slept_on`](super::state::State)). A thread that had to be stopped to be read was woken by that, so for locks of the C library,
//! whose owners are words in memory, and for the lock of a VM, the check is made once more afterwards: all threads of the circle are seen
//! asleep in the same call on the same stack, the owners are read again, and all of the threads still sleep (`settle`).

use std::time::{Duration, Instant};

use process::asleep::Asleep;
use process::snapshot::Thread;

use super::activity::{Until, through, waits_for};
use super::owners::Owners;
use super::scripts::{Through, Turn};
use super::stack::{Process, Stack};
use super::state::State;

/// A thread that sleeps so long with the VM's lock keeps it: the turns of threads that run are shorter (5 ms in Python, 100 ms in Ruby).
const LONG: Duration = Duration::from_millis(200);

/// How long a thread is waited for that has woken up to ask for the VM's lock again, and the time between two looks at it.
const AWAKE: Duration = Duration::from_millis(50);
const BETWEEN: Duration = Duration::from_micros(200);

/// For each thread, the other thread that it waits for, and until when.
type Ties = Vec<Option<(Until, usize)>>;

fn ties(stacks: &[Stack]) -> Ties {
    (0..stacks.len()).map(|at| waits_for(stacks, at)).collect()
}

/// Returns the circles of threads in which each waits for the next, and the last for the first: none of them goes on unless something
/// interrupts it (Ruby's `Timeout`, `Thread#raise`). Threads are given by their index among the stacks.
pub fn deadlocks(stacks: &[Stack]) -> Vec<Vec<usize>> {
    let ties = ties(stacks);
    let slept_on = |at: usize| {
        let state = stacks[at].state.as_ref();
        state.is_some_and(|state| state.slept_on)
    };
    let was_still = |at: usize| {
        let state = stacks[at].state.as_ref();
        state.is_some_and(|state| state.still)
    };
    let still = |at: usize| slept_on(at) || was_still(at);
    // While its owner sleeps no thread gets the VM's lock, so a thread that waits for that lock stays where it is, even if it wakes up now
    // and then.
    let stays = |at: usize, sleeps: &dyn Fn(usize) -> bool| match ties[at] {
        Some((Until::Turn, owner)) => slept_on(owner) || was_still(at) && was_still(owner),
        _ => sleeps(at),
    };
    let next: Vec<Option<usize>> = (0..stacks.len())
        .map(|at| {
            let (until, other) =
                ties[at].filter(|(until, _)| !ends(*until, stacks[at].state.as_ref()))?;
            let sleeps: &dyn Fn(usize) -> bool = match is_in_memory(&stacks[at]) {
                _ if until == Until::Turn => &still,
                true => &still,
                false => &slept_on,
            };
            (stays(at, sleeps) && stays(other, sleeps)).then_some(other)
        })
        .collect();
    circles(&next)
}

/// Whether a wait ends by itself: a `join` with a time limit, or a lock of the C library with one. A thread that waits for the lock of a
/// VM, or a mutex of a language, waits again after such a time.
fn ends(until: Until, state: Option<&State>) -> bool {
    let wait = state.and_then(|state| state.wait.as_ref());
    let is_timed = wait.is_some_and(|wait| wait.timed);
    is_timed && matches!(until, Until::Ended | Until::Released(_))
}

/// Whether a thread waits for a lock of the C library, or for the end of a thread that is identified by such a word.
fn is_in_memory(stack: &Stack) -> bool {
    let state = stack.state.as_ref();
    state.is_some_and(|state| state.held.is_some())
}

/// Checks threads in circles that look like deadlocks but were woken to be read: whether they are still where they were, with the same
/// owners.
pub(super) fn settle(pid: i32, process: &Process, owners: &Owners, stacks: &mut [Stack]) {
    if !stacks.iter().any(is_in_memory) {
        return;
    }
    let others: Vec<Option<usize>> = ties(stacks)
        .into_iter()
        .map(|tie| tie.map(|(_, other)| other))
        .collect();
    let members: Vec<usize> = circles(&others).into_iter().flatten().collect();
    let in_memory = |at: &&usize| is_in_memory(&stacks[**at]);
    if members.iter().find(in_memory).is_none() {
        return;
    }
    let sleepers: Vec<(usize, Asleep)> = members
        .into_iter()
        .filter_map(|at| {
            let polls = matches!(waits_for(stacks, at), Some((Until::Turn, _)));
            let thread = &stacks[at].thread;
            Some((at, where_it_was(pid, thread, polls)?))
        })
        .collect();
    let same: Vec<bool> = sleepers
        .iter()
        .map(|(at, asleep)| {
            if let Some((Until::Turn, holder)) = waits_for(stacks, *at) {
                return has_turn(process, stacks, (*at, asleep), holder);
            }
            let state = stacks[*at].state.as_ref();
            let futex = state.and_then(|state| state.wait.as_ref()?.futex);
            let is_there = futex.filter(|futex| futex.word == asleep.call().arguments[0]);
            let again = is_there.and_then(|futex| owners.held(process, &stacks[*at], &futex));
            again.is_some() && again == state.and_then(|state| state.held.clone())
        })
        .collect();
    for ((at, asleep), same) in sleepers.into_iter().zip(same) {
        if let Some(state) = stacks[at].state.as_mut() {
            // A thread that waits for the VM's lock wakes up to ask for it, and does not get it.
            let polls = state.vm.as_ref().is_some_and(|vm| vm.turn == Turn::Waits);
            state.still = same && (polls || asleep.sleeps_on());
        }
    }
}

/// Returns a thread that sleeps where it was when its stack was copied. One that `polls` is given the time to sleep again.
fn where_it_was(pid: i32, thread: &Thread, polls: bool) -> Option<Asleep> {
    let since = Instant::now();
    loop {
        let asleep = Asleep::in_kernel(pid, thread.tid);
        let is_there = |asleep: &Asleep| {
            let place = (asleep.call().sp, asleep.call().pc);
            place == (thread.context.sp, thread.context.ip)
        };
        match asleep.filter(is_there) {
            None if polls && since.elapsed() < AWAKE => std::thread::sleep(BETWEEN),
            found => return found,
        }
    }
}

/// Whether a thread that sleeps waits for the VM's lock, and this holder still has it, by what their VM says now.
fn has_turn(
    process: &Process,
    stacks: &[Stack],
    (waiting, asleep): (usize, &Asleep),
    holder: usize,
) -> bool {
    let now = |at: usize, argument: u64| {
        let stack = &stacks[at];
        let through = Through {
            argument,
            ..through(process, stack)
        };
        let mut vms = process.vms.iter();
        vms.find_map(|vm| vm.thread(process.memory, &stack.thread, process.copies, &through))
    };
    let Some(own) = now(waiting, asleep.call().arguments[0]) else {
        return false;
    };
    own.turn == Turn::Waits
        && now(holder, 0).is_some_and(|other| match own.turn_of {
            Some(id) => other.id == id,
            None => other.turn == Turn::Has,
        })
}

/// The threads that one thread holds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// How many wait for a lock that it holds, directly or through others.
    pub count: usize,
    /// How long the one of them has waited that has waited longest; `None` if that is known of none.
    pub longest: Option<Duration>,
}

/// Returns for each thread which others it holds up. Threads in a circle are not counted for each other.
pub fn held_up(stacks: &[Stack]) -> Vec<HeldUp> {
    let ties: Ties = ties(stacks)
        .into_iter()
        .enumerate()
        .map(|(at, tie)| tie.filter(|(_, other)| *other != at))
        .collect();
    let slept = |at: usize| stacks[at].state.as_ref()?.wait.as_ref()?.asleep;
    // A thread is not held up if it takes turns at the VM's lock, or if it waits for the end of a thread, as a main thread does.
    let is_held = |at: usize| match ties[at] {
        Some((Until::Unlocked | Until::Released(_), _)) => true,
        Some((Until::Turn, owner)) => slept(owner) >= Some(LONG),
        _ => false,
    };
    let mut waiting = vec![0usize; stacks.len()];
    for (_, other) in ties.iter().flatten() {
        waiting[*other] += 1;
    }
    let mut found = vec![HeldUp::default(); stacks.len()];
    let mut done: Vec<usize> = (0..stacks.len()).filter(|at| waiting[*at] == 0).collect();
    while let Some(at) = done.pop() {
        let Some((_, other)) = ties[at] else {
            continue;
        };
        let mut behind = found[at];
        if is_held(at) {
            behind.count += 1;
            behind.longest = behind.longest.max(slept(at));
        }
        found[other].count += behind.count;
        found[other].longest = found[other].longest.max(behind.longest);
        waiting[other] -= 1;
        if waiting[other] == 0 {
            done.push(other);
        }
    }
    found
}

/// Returns the circles of a graph in which each has at most one successor, each beginning with its lowest number.
fn circles(next: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    // The walk in which each was first met.
    let mut met: Vec<Option<usize>> = vec![None; next.len()];
    for start in 0..next.len() {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(now) = at.filter(|now| met[*now].is_none()) {
            met[now] = Some(start);
            path.push(now);
            at = next[now];
        }
        // The circle begins where the walk met itself; what leads there is not part of it.
        let Some(begins) = at.filter(|now| met[*now] == Some(start)) else {
            continue;
        };
        let lead = path.iter().position(|one| *one == begins).unwrap_or(0);
        let mut circle = path.split_off(lead);
        let lowest = (0..circle.len()).min_by_key(|at| circle[*at]);
        circle.rotate_left(lowest.unwrap_or(0));
        found.push(circle);
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::state::What;
    use process::wait::Wait;

    /// A thread that gives up after a time is in no deadlock. One that waits for the lock of a VM or for a mutex of a language asks again.
    #[test]
    fn a_wait_with_a_limit_ends_by_itself() {
        let waits = |timed| State {
            wait: Some(Wait {
                timed,
                ..Wait::default()
            }),
            ..State::default()
        };
        for (until, expected) in [
            (Until::Ended, true),
            (Until::Released(What::Mutex), true),
            (Until::Turn, false),
            (Until::Unlocked, false),
        ] {
            assert_eq!(ends(until, Some(&waits(true))), expected, "{until:?}");
            assert!(!ends(until, Some(&waits(false))), "{until:?}");
            assert!(!ends(until, None), "{until:?}");
        }
    }

    #[test]
    fn circles_are_found_once() {
        let next = [
            Some(1),
            Some(2),
            Some(0),
            Some(0),
            None,
            Some(5),
            Some(7),
            Some(6),
        ];
        let next: Vec<Option<usize>> = next.to_vec();
        assert_eq!(circles(&next), [vec![0, 1, 2], vec![5], vec![6, 7]]);
        assert_eq!(circles(&[None, Some(0)]), Vec::<Vec<usize>>::new());
    }
}
