//! Determines what a thread does: it runs, it waits in the kernel, or it waits for another thread. Used by `open`,
//! `circles` and others here, and by crate `report`.
//!
//! Three sources are combined. The kernel says which system call a thread sleeps in, since when, and on which descriptors
//! (`process::wait`). The VM says which thread has its lock, which thread waits for which mutex and which one holds it. The native frames
//! say which function of the C library made the call: a `poll` within `getaddrinfo` waits for a name server. Beside the word of a `futex`
//! the C library stores the owner of the lock (`owners`).

use std::collections::HashSet;

use process::snapshot::Activity;
use process::wait::Wait;

use super::loaded::Loaded;
use super::scripts::{Script, Through, Turn, VmThread};
use super::stack::{Process, Stack};
use super::state::{Owner, State, What};

/// Functions within glibc, and the functions by which a program reaches them: these end in a jump, so their own frame is gone.
const INTERNAL: &[(&str, &str)] = &[
    ("__new_sem_wait_slow", "sem_wait"),
    ("__new_sem_timedwait", "sem_timedwait"),
    ("__pthread_mutex_lock_full", "pthread_mutex_lock"),
    (
        "__pthread_mutex_clocklock_common",
        "pthread_mutex_timedlock",
    ),
    ("__pthread_clockjoin_ex", "pthread_join"),
    ("__pthread_timedjoin_ex", "pthread_join"),
];

/// The event at another thread that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The other thread unlocks a mutex of the language.
    Unlocked,
    /// The other thread ends.
    Ended,
    /// The other thread gives up the lock of the VM.
    Turn,
    /// The other thread unlocks a lock of the C library.
    Released(What),
}

/// A lock that threads wait for, by what tells it apart from the others of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// The lock of the VM.
    Vm,
    /// A mutex of the language, by its address.
    Script(u64),
    /// A lock of the C library, by the address of the word that its waiters sleep on.
    Library(What, u64),
}

/// Tells who has the VM's lock, where only those who wait for it lead to that, and since when they wait. A thread that waits for it wakes up
/// all the time to ask for it anew (each 5 ms in Python). It has run nothing of the language for as long as the one that has the lock has
/// slept with it.
pub(super) fn tell_turns(stacks: &mut [Stack]) {
    for waiting in 0..stacks.len() {
        if vm(&stacks[waiting]).is_none_or(|vm| vm.turn != Turn::Waits) {
            continue;
        }
        let Some((Until::Turn, has)) = waits_for(stacks, waiting) else {
            continue;
        };
        let sleeps = |stack: &Stack| stack.state.as_ref()?.wait.as_ref()?.asleep;
        let longest = sleeps(&stacks[has]).max(sleeps(&stacks[waiting]));
        let holder = stacks[has].state.as_mut();
        if let Some(vm) = holder.and_then(|state| state.vm.as_mut()) {
            vm.turn = Turn::Has;
        }
        let wait = stacks[waiting].state.as_mut();
        if let Some(wait) = wait.and_then(|state| state.wait.as_mut()) {
            wait.asleep = longest;
        }
    }
}

/// Takes back that a thread has the lock of the C library itself that it waits for, where it may have run while that was read: it then had
/// the lock at one moment, and waited for it at another.
pub(super) fn doubt_own(stacks: &mut [Stack]) {
    for stack in stacks {
        let own = Owner::Thread(stack.thread.tid);
        let Some(state) = stack.state.as_mut() else {
            continue;
        };
        let slept = state.slept_on || state.still;
        if let Some(held) = state
            .held
            .as_mut()
            .filter(|held| held.owner == own && !slept)
        {
            held.owner = Owner::Unknown;
        }
    }
}

/// Returns the functions through which the thread of a stack sleeps.
pub(super) fn through(process: &Process, stack: &Stack) -> Through {
    let vm = |module: usize| {
        let mut runners = process.vms.iter().flat_map(|vm| vm.runner());
        runners.any(|code| process.modules.number(code.start) == Some(module))
    };
    let is_between = |number: usize| {
        let is_library =
            |loaded: &Loaded| loaded.is_c_library() || loaded.name().starts_with("lib");
        !vm(number) && process.modules.get(number).is_some_and(is_library)
    };
    let mut found = Through::default();
    for line in &stack.lines {
        let function = line.function.as_ref();
        let function = function.and_then(|function| function.name.clone());
        if !line.module.is_some_and(is_between) {
            found.caller = function;
            break;
        }
        found.function = function.or(found.function);
    }
    // Functions in which every thread begins, and the one by which a program makes any system call.
    let says_nothing = ["start_thread", "__libc_start_main", "syscall"];
    found
        .function
        .take_if(|name| says_nothing.contains(&name.as_str()));
    let public = |name: String| {
        let known = INTERNAL.iter().find(|(own, _)| name.starts_with(own));
        known.map_or(name, |(_, public)| (*public).to_owned())
    };
    found.function = found.function.map(public);
    found
}

/// Returns the wait of a thread that sleeps a little between two attempts to lock a file, as SQLite does where another process has the
/// database (`sqlite3_busy_timeout`).
pub(super) fn retries(state: &mut State) -> Option<&mut Wait> {
    // A program that calls `sqlite3_sleep` itself tries nothing.
    let is_sqlite = |name: &str| name.starts_with("sqlite3_") && name != "sqlite3_sleep";
    let sleeps = |call: &str| ["clock_nanosleep", "nanosleep"].contains(&call);
    state.through.as_deref().filter(|name| is_sqlite(name))?;
    let wait = state.wait.as_mut()?;
    wait.call.is_some_and(sleeps).then_some(wait)
}

fn vm(stack: &Stack) -> Option<&VmThread> {
    stack.state.as_ref()?.vm.as_ref()
}

/// Returns the thread that a thread waits for, as its index among the stacks, and until when; `None` if it waits for no other thread, or
/// that one is unknown.
pub fn waits_for(stacks: &[Stack], number: usize) -> Option<(Until, usize)> {
    by_its_vm(stacks, number).or_else(|| by_the_c_library(stacks, number))
}

/// Returns the lock that a thread waits for, whether or not it is known who has it. Python's `Lock` is told so also where it is no more than
/// the place at which one thread waits for a condition.
pub fn lock(stacks: &[Stack], number: usize) -> Option<Lock> {
    let state = stacks.get(number)?.state.as_ref()?;
    let wait = state.wait.as_ref()?;
    if let Some(vm) = &state.vm {
        if let Some(mutex) = vm.wants.or(vm.may_want) {
            return Some(Lock::Script(mutex));
        }
        if vm.turn == Turn::Waits {
            return Some(Lock::Vm);
        }
    }
    let held = state.held.as_ref()?;
    let is_lock = held.what != What::End;
    is_lock.then_some(Lock::Library(held.what, wait.futex?.word))
}

/// Returns the threads that wait for a lock of which a holder is known.
pub(super) fn with_holders(stacks: &[Stack]) -> HashSet<i32> {
    let vms = stacks.iter().filter_map(vm);
    let holds: HashSet<u64> = vms.flat_map(|vm| vm.holds.iter().copied()).collect();
    let by_vm = |vm: &VmThread| {
        let is_held = vm.may_want.is_some_and(|mutex| holds.contains(&mutex));
        is_held || vm.wants.is_some() || vm.turn == Turn::Waits
    };
    let is_held = |stack: &&Stack| {
        let held = stack.state.as_ref().and_then(|state| state.held.as_ref());
        held.is_some_and(|held| held.what != What::End) || vm(stack).is_some_and(by_vm)
    };
    let with = stacks.iter().filter(is_held);
    with.map(|stack| stack.thread.tid).collect()
}

/// Whether a stack is what is known last of its thread. One that fell asleep while others were read has two in a look: as it ran, or slept
/// before, and as it sleeps now.
fn is_latest(stacks: &[Stack], number: usize) -> bool {
    let order = |at: usize| (stacks[at].thread.activity != Activity::Ran, at);
    let is_later = |at: &usize| is_same(stacks, number, *at) && order(*at) > order(number);
    stacks[number].parked.is_none() && !(0..stacks.len()).any(|at| is_later(&at))
}

/// Whether two stacks are of the same thread.
fn is_same(stacks: &[Stack], one: usize, other: usize) -> bool {
    let [one, other] = [one, other].map(|at| &stacks[at]);
    let are_threads = one.parked.is_none() && other.parked.is_none();
    are_threads && one.thread.tid == other.thread.tid
}

/// The same by the data of its VM.
fn by_its_vm(stacks: &[Stack], number: usize) -> Option<(Until, usize)> {
    let own = vm(stacks.get(number)?)?;
    // What the thread itself did before says nothing of what it waits for now.
    let is_other = |at: usize| !is_same(stacks, at, number) && is_latest(stacks, at);
    let other = |is_it: &dyn Fn(&VmThread) -> bool| {
        (0..stacks.len()).find(|&at| vm(&stacks[at]).is_some_and(is_it) && is_other(at))
    };
    stacks[number].state.as_ref()?.wait.as_ref()?;
    if let Some(mutex) = own.wants {
        return Some((Until::Unlocked, other(&|vm| vm.holds.contains(&mutex))?));
    }
    // Python's `Lock` is not reentrant, so its holder may be the thread itself.
    let is_holder = |at: &usize| {
        let holds = |mutex| vm(&stacks[*at]).is_some_and(|vm| vm.holds.contains(&mutex));
        own.may_want.is_some_and(holds) && (*at == number || is_other(*at))
    };
    if let Some(holder) = (0..stacks.len()).find(is_holder) {
        return Some((Until::Unlocked, holder));
    }
    if own.turn == Turn::Waits {
        let has_it = |vm: &VmThread| match own.turn_of {
            Some(id) => vm.id == id,
            None => vm.turn == Turn::Has,
        };
        return Some((Until::Turn, other(&has_it)?));
    }
    let is_joined = |vm: &VmThread| own.may_join && vm.joined_by.contains(&own.id);
    other(&is_joined).map(|at| (Until::Ended, at))
}

/// Returns the thread of this process that owns the C library's lock which a thread waits for, or whose end it waits for.
fn by_the_c_library(stacks: &[Stack], number: usize) -> Option<(Until, usize)> {
    let held = stacks.get(number)?.state.as_ref()?.held.as_ref()?;
    let Owner::Thread(tid) = held.owner else {
        return None;
    };
    let is_own = stacks[number].thread.tid == tid;
    let is_it = |at: &usize| stacks[*at].thread.tid == tid && is_latest(stacks, *at);
    let owner = match is_own {
        true => number,
        false => (0..stacks.len()).find(is_it)?,
    };
    let until = match held.what {
        What::End => Until::Ended,
        what => Until::Released(what),
    };
    Some((until, owner))
}

impl Stack {
    /// Returns the innermost script frame of the program itself, otherwise of a library. Frames with neither a readable file nor a
    /// readable name, as while an interpreter begins, do not count.
    pub fn place(&self) -> Option<&Script> {
        let known = || self.scripts().filter(|script| script.is_known());
        known()
            .find(|script| !script.is_library())
            .or_else(|| known().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::scripts::Placement;
    use crate::live::state::Held;
    use process::snapshot::{Thread, UnwindContext};

    fn script(path: &str, name: &str) -> Script {
        Script {
            path: path.into(),
            line: 0,
            name: name.into(),
            qualified: None,
            placement: Placement::SameRun,
            launcher: false,
        }
    }

    fn thread(tid: i32, activity: Activity, vm: VmThread, sleeps: bool) -> Stack {
        let context = UnwindContext::default();
        let mut thread = Thread::on_processor(1, tid, context, 0..0);
        thread.activity = activity;
        let state = State {
            wait: sleeps.then(Wait::default),
            vm: Some(vm),
            ..State::default()
        };
        Stack {
            state: Some(state),
            ..Stack::empty(&thread)
        }
    }

    /// Thread 7 had the mutex as it ran, and sleeps for it now, when 8 has it, which ran without it.
    #[test]
    fn a_thread_is_not_held_up_by_what_it_held_itself_as_it_ran() {
        let holds = |holds: &[u64]| VmThread {
            holds: holds.to_vec(),
            ..VmThread::default()
        };
        let ran = |tid, vm| thread(tid, Activity::Ran, vm, false);
        let sleeps = |tid, vm| thread(tid, Activity::Slept, vm, true);
        let wants = VmThread {
            wants: Some(16),
            ..VmThread::default()
        };
        let may_want = VmThread {
            may_want: Some(16),
            ..VmThread::default()
        };
        for waits in [wants.clone(), may_want] {
            let stacks = [sleeps(7, waits.clone()), ran(7, holds(&[16]))];
            assert_eq!(waits_for(&stacks, 0), None);
            let of_holder = [
                stacks[0].clone(),
                stacks[1].clone(),
                ran(8, holds(&[])),
                sleeps(8, holds(&[16])),
            ];
            assert_eq!(waits_for(&of_holder, 0), Some((Until::Unlocked, 3)));
            // What 8 held as it ran, and holds no more.
            let released = [
                stacks[0].clone(),
                sleeps(8, holds(&[])),
                ran(8, holds(&[16])),
            ];
            assert_eq!(waits_for(&released, 0), None);
        }
        // Python's `Lock`, locked twice.
        let twice = VmThread {
            may_want: Some(16),
            ..holds(&[16])
        };
        let stacks = [sleeps(7, twice)];
        assert_eq!(waits_for(&stacks, 0), Some((Until::Unlocked, 0)));
        let turn = |turn| VmThread {
            turn,
            ..VmThread::default()
        };
        let stacks = [sleeps(7, turn(Turn::Waits)), ran(7, turn(Turn::Has))];
        assert_eq!(waits_for(&stacks, 0), None);
        let mut of_c = [sleeps(7, wants), ran(8, holds(&[])), sleeps(8, holds(&[]))];
        of_c[0].state = Some(State {
            held: Some(Held {
                what: What::Mutex,
                owner: Owner::Thread(8),
            }),
            ..State::default()
        });
        let until = Until::Released(What::Mutex);
        assert_eq!(waits_for(&of_c, 0), Some((until, 2)));
        assert_eq!(with_holders(&of_c), HashSet::from([7]));
    }

    /// As of an interpreter that begins.
    #[test]
    fn a_frame_of_which_nothing_is_known_is_no_place() {
        let thread = Thread {
            tid: 1,
            own_id: 1,
            name: String::new(),
            main: true,
            context: Default::default(),
            mapping: 0..0,
            activity: Activity::Unknown,
        };
        let mut stack = Stack::empty(&thread);
        stack.unplaced = vec![script("?", "?")];
        assert_eq!(stack.place(), None);
        stack.unplaced.push(script("/srv/app.py", "?"));
        let place = stack.place().expect("its file is known");
        assert_eq!(place.path, "/srv/app.py");
    }
}
