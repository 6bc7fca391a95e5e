//! What a thread does: it runs, it waits in the kernel, or it waits for another thread.
//!
//! Three accounts are put together. The kernel says which system call a thread sleeps in, since when, and on which
//! descriptors (`process::wait`). The VM says who has its lock, who waits for which mutex and who holds it. The native
//! frames say which function of the C library made the call: a `poll` within `getaddrinfo` waits for a name server.
//!
//! A thread that waits for another that waits for it in turn, directly or by others, waits for ever. That is said only
//! if each of them slept from before its stack was copied until the VM's account of it had been read: then none of
//! them can have changed what it holds or wants meanwhile.

use std::collections::HashMap;

use process::asleep::Asleep;
use process::stop::thread_ids;
use process::wait::{Wait, Waits};
use vm::Memory;

use super::scripts::{Script, Turn, VmThread};
use super::stack::{Process, Stack};
use super::state::State;

/// Names of libraries that make system calls for others: the C library and what it loads to look up names.
const C_LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-",
    "libresolv",
    "libnss_",
    "libpthread",
    "ld-linux",
    "ld-musl",
];

/// What a thread waits for another to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To give up a mutex of the language.
    Unlocked,
    /// To end.
    Ended,
    /// To give up the lock of the VM.
    Turn,
}

/// The threads that slept before the process was stopped.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    by_tid: HashMap<i32, (Asleep, Wait)>,
}

impl Sleepers {
    pub(super) fn of(pid: i32, memory: &dyn Memory) -> Sleepers {
        let mut waits = Waits::of(pid, memory);
        let threads = thread_ids(pid).unwrap_or_default().into_iter();
        let asleep = threads.filter_map(|tid| Asleep::of(pid, tid));
        let by_tid = asleep
            .map(|asleep| (asleep.tid(), (asleep.clone(), waits.wait(&asleep))))
            .collect();
        Sleepers { by_tid }
    }
}

impl Sleepers {
    /// Returns what the thread of a stack does.
    pub(super) fn state(&self, process: &Process, stack: &Stack) -> State {
        let thread = &stack.thread;
        let sleeper = self.by_tid.get(&thread.tid).filter(|(asleep, _)| {
            let call = asleep.call();
            (call.sp, call.pc) == (thread.context.sp, thread.context.ip)
        });
        let mut known = process.vms.iter();
        let vm = known.find_map(|vm| vm.thread(process.memory, thread, process.copies));
        State {
            wait: sleeper.map(|(_, wait)| wait.clone()),
            through: sleeper.and_then(|_| through(process, stack)),
            vm,
            slept_on: sleeper.is_some_and(|(asleep, _)| asleep.sleeps_on()),
        }
    }
}

/// Returns the outermost function of the libraries that stand between a system call and the VM or the program.
fn through(process: &Process, stack: &Stack) -> Option<String> {
    let vm = |module: usize| {
        let mut runners = process.vms.iter().flat_map(|vm| vm.runner());
        runners.any(|code| process.modules.number(code.start) == Some(module))
    };
    let mut found = None;
    for line in &stack.lines {
        let Some(number) = line.module.filter(|number| !vm(*number)) else {
            break;
        };
        let name = process.modules.get(number)?.name();
        let is_libc = C_LIBRARIES.iter().any(|library| name.starts_with(library));
        if !is_libc && !name.starts_with("lib") {
            break;
        }
        let function = line
            .function
            .as_ref()
            .and_then(|function| function.name.clone());
        found = function.or(found);
    }
    // Where every thread begins.
    found.filter(|name| name != "start_thread" && name != "__libc_start_main")
}

fn vm(stack: &Stack) -> Option<&VmThread> {
    stack.state.as_ref()?.vm.as_ref()
}

/// Returns the thread that a thread waits for, as its number among the stacks, and until when; `None` for one that
/// waits for no other thread, or for one that cannot be told.
pub fn waits_for(stacks: &[Stack], number: usize) -> Option<(Until, usize)> {
    let own = vm(stacks.get(number)?)?;
    let other = |is_it: &dyn Fn(&VmThread) -> bool| {
        (0..stacks.len()).find(|&at| at != number && vm(&stacks[at]).is_some_and(is_it))
    };
    stacks[number].state.as_ref()?.wait.as_ref()?;
    if let Some(mutex) = own.wants {
        return Some((Until::Unlocked, other(&|vm| vm.holds.contains(&mutex))?));
    }
    if own.turn == Turn::Waits {
        return Some((Until::Turn, other(&|vm| vm.turn == Turn::Has)?));
    }
    Some((Until::Ended, other(&|vm| vm.joined_by.contains(&own.id))?))
}

/// Returns the circles of threads in which each waits for the next, and the last for the first: none of them will ever
/// go on. Threads are given by their numbers among the stacks.
pub fn deadlocks(stacks: &[Stack]) -> Vec<Vec<usize>> {
    let slept_on = |at: usize| {
        stacks[at]
            .state
            .as_ref()
            .is_some_and(|state| state.slept_on)
    };
    let next: Vec<Option<usize>> = (0..stacks.len())
        .map(|at| match waits_for(stacks, at)? {
            (Until::Turn, _) => None,
            (_, other) => (slept_on(at) && slept_on(other)).then_some(other),
        })
        .collect();
    circles(&next)
}

/// Returns the circles of a graph in which each has at most one successor, each beginning with its lowest number.
fn circles(next: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    for start in 0..next.len() {
        let mut path = vec![start];
        while let Some(to) = path.last().and_then(|&at| next[at]) {
            if to == start {
                found.push(path);
                break;
            }
            // A lower number would have been the start of the same circle; one met before is a circle beside it.
            if to < start || path.contains(&to) {
                break;
            }
            path.push(to);
        }
    }
    found
}

impl Stack {
    /// Returns the innermost script frame of the program itself, else of a library.
    pub fn place(&self) -> Option<&Script> {
        self.scripts()
            .find(|script| !script.is_library())
            .or_else(|| self.scripts().next())
    }
}

#[cfg(test)]
mod tests {
    use super::circles;

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
