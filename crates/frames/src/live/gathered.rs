//! Threads that wait without a time limit in one function, and which other threads are further in the function that called it.
//! Used by `report::stack::conclusions` and `report::stack::waits`.
//!
//! Nothing says who has what a program's own pool gives away: a condition variable has no owner. But whoever came through the same function
//! has left the one that waits, and is still in the one that called it while it uses what it was given:
//!
//! ```text
//!   waits                         uses a connection               waits for work
//!   ConditionVariable#wait        Socket#write                    Thread::Queue#pop
//!   Pool#checkout  ◄ within       …                               <main>
//!   Object#pay     ◄ caller       Object#pay  ◄ further
//!   <main>                        <main>
//! ```
//!
//! Where no thread is further in the caller, what they wait for is with none of those that came this way: it was not given back. Workers that
//! wait for work in a function of the program look the same, so this is told as what was seen, and not as a fault. The loop of a worker is
//! mostly the outermost function of its thread, and is then no caller of this kind.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::activity::waits_for;
use super::scripts::{Script, Turn};
use super::stack::Stack;

/// How long each of them must have slept: a pool that is used up for a moment is in order.
const LEAST: Duration = Duration::from_secs(1);
/// The least number of threads that are told: one that waits alone has its own row.
const FEWEST: usize = 2;

/// Threads that wait in one function that the same function called. Threads are given by their index among the stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// The threads that wait.
    pub waiting: Vec<usize>,
    /// The frame of the program's function in which the first of them waits.
    pub within: Script,
    /// The frame of the function that called it.
    pub caller: Script,
    /// The other threads that are in the caller.
    pub further: Vec<usize>,
}

/// A function of a script: its file, and its name without the blocks in it.
type Function<'a> = (&'a str, &'a str);

fn function(script: &Script) -> Function<'_> {
    // `block (2 levels) in Pool#checkout`, `rescue in block in Pool#checkout`.
    let full = script.full_name();
    let name = full.rsplit(" in ").next().unwrap_or(full);
    (&script.path, name)
}

/// Returns the innermost frame of each function of the program itself, innermost first.
fn functions(stack: &Stack) -> Vec<&Script> {
    let own = |script: &&Script| script.is_known() && !script.is_library();
    let mut found: Vec<&Script> = stack.scripts().filter(own).collect();
    found.dedup_by_key(|script| function(script));
    found
}

/// Whether a thread waits without a time limit for another thread of its process, and nobody knows for which.
fn waits_for_anyone(stacks: &[Stack], number: usize) -> bool {
    let stack = &stacks[number];
    let Some(state) = stack.state.as_ref().filter(|_| stack.parked.is_none()) else {
        return false;
    };
    let Some(wait) = &state.wait else {
        return false;
    };
    let is_of_vm = state
        .vm
        .as_ref()
        .is_some_and(|vm| vm.wants.is_some() || vm.turn == Turn::Waits);
    let is_long = wait.asleep >= Some(LEAST) && !wait.timed && !state.stopped;
    is_long
        && wait.futex.is_some()
        && state.held.is_none()
        && !is_of_vm
        && waits_for(stacks, number).is_none()
}

/// Returns the threads that wait together, those of the most threads first.
pub fn gathered(stacks: &[Stack]) -> Vec<Gathered> {
    let own: Vec<Vec<&Script>> = stacks.iter().map(functions).collect();
    let mut groups: BTreeMap<[Function; 2], Vec<usize>> = BTreeMap::new();
    for (number, frames) in own.iter().enumerate() {
        // Behind the caller there is another function, or it is the loop of a worker.
        let [within, caller, _, ..] = frames[..] else {
            continue;
        };
        if waits_for_anyone(stacks, number) {
            let key = [function(within), function(caller)];
            groups.entry(key).or_default().push(number);
        }
    }
    groups.retain(|_, waiting| waiting.len() >= FEWEST);
    let mut found: Vec<Gathered> = groups
        .into_iter()
        .map(|([_, caller], waiting)| {
            let known: HashSet<usize> = waiting.iter().copied().collect();
            let is_in = |number: &usize| {
                let frames = own[*number].iter();
                let mut functions = frames.map(|script| function(script));
                stacks[*number].parked.is_none() && functions.any(|one| one == caller)
            };
            let others = (0..stacks.len()).filter(|number| !known.contains(number));
            let first = &own[waiting[0]];
            Gathered {
                within: first[0].clone(),
                caller: first[1].clone(),
                further: others.filter(is_in).collect(),
                waiting,
            }
        })
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.waiting.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::scripts::Placement;
    use crate::live::state::State;
    use process::snapshot::{Activity, Thread};
    use process::wait::{Futex, Wait};

    fn script(path: &str, name: &str) -> Script {
        Script {
            path: path.into(),
            line: 7,
            name: name.into(),
            qualified: None,
            placement: Placement::SameRun,
            launcher: false,
        }
    }

    /// A thread with these functions, innermost first, that has slept for so many seconds on a word; for 0 it runs.
    fn thread(names: &[&str], slept: u64) -> Stack {
        let thread = Thread {
            tid: 1,
            own_id: 1,
            name: String::new(),
            main: false,
            context: Default::default(),
            mapping: 0..0,
            activity: Activity::Unknown,
        };
        let wait = Wait {
            futex: Some(Futex {
                word: 64,
                value: 0,
                shared: false,
                inherits: false,
            }),
            asleep: Some(Duration::from_secs(slept)),
            ..Wait::default()
        };
        let scripts = names.iter().map(|name| script("/srv/app.rb", name));
        Stack {
            unplaced: scripts.collect(),
            state: Some(State {
                wait: (slept > 0).then_some(wait),
                ..State::default()
            }),
            ..Stack::empty(&thread)
        }
    }

    const CHECKOUT: [&str; 5] = [
        "block in Pool#checkout",
        "Pool#checkout",
        "Object#pay",
        "block in <main>",
        "<main>",
    ];

    #[test]
    fn who_is_further_in_the_caller_is_found() {
        let user = thread(&["block in Object#pay", "Object#pay", "<main>"], 0);
        let idle = thread(&["block in <main>"], 9);
        let waits = || thread(&CHECKOUT, 2);
        let found = gathered(&[waits(), user.clone(), idle.clone(), waits()]);
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (&one.waiting[..], &one.further[..]),
            (&[0, 3][..], &[1][..])
        );
        assert_eq!(one.within.name, "block in Pool#checkout");
        assert_eq!(one.caller.name, "Object#pay");
        let found = gathered(&[waits(), idle, waits()]);
        assert_eq!(found[0].further, [0; 0]);
    }

    /// One alone, those that wait for a moment or with a limit, and the loops of workers.
    #[test]
    fn what_is_in_order_is_not_told() {
        let told = |one: Stack| !gathered(&[one.clone(), one]).is_empty();
        let waits = thread(&CHECKOUT, 2);
        assert!(told(waits.clone()));
        assert!(gathered(std::slice::from_ref(&waits)).is_empty());
        assert!(!told(thread(&CHECKOUT, 0)));
        let with = |change: fn(&mut Wait)| {
            let mut one = waits.clone();
            let state = one.state.as_mut().expect("it was asked");
            change(state.wait.as_mut().expect("it waits"));
            one
        };
        assert!(!told(with(|wait| wait.timed = true)));
        assert!(!told(with(|wait| wait.asleep = Some(LEAST / 2))));
        assert!(!told(with(|wait| wait.futex = None)));
        let worker = [
            "block in Work#take",
            "Work#take",
            "block in Worker#run",
            "Worker#run",
        ];
        assert!(!told(thread(&worker, 2)));
    }
}
