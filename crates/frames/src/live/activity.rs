//! Determines what a thread does: it runs, it waits in the kernel, or it waits for another thread. Used by `open`,
//! `circles` and others here, and by crate `report`.
//!
//! Three sources are combined. The kernel says which system call a thread sleeps in, since when, and on which descriptors
//! (`process::wait`). The VM says which thread has its lock, which thread waits for which mutex and which one holds it. The native frames
//! say which function of the C library made the call: a `poll` within `getaddrinfo` waits for a name server. Beside the word of a `futex`
//! the C library stores the owner of the lock (`owners`).

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use process::asleep::{Asleep, run_time};
use process::interrupted::InCall;
use process::ptrace;
use process::snapshot::Thread;
use process::stop::{Stop, thread_ids, thread_state};
use process::wait::{Wait, Waits, slept_for};
use vm::Memory;

use super::earlier::Earlier;
use super::loaded::Loaded;
use super::name_lookup;
use super::owners::Owners;
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

/// A thread that slept before the process was stopped.
#[derive(Debug)]
struct Sleeper {
    call: InCall,
    wait: Wait,
    /// Shows whether it has slept since; `None` if the kernel or its C library does not allow that.
    asleep: Option<Asleep>,
    /// When it was asked.
    asked: Instant,
}

impl Sleeper {
    /// Returns whether the thread sleeps where it was when its stack was copied.
    fn is_at(&self, thread: &Thread) -> bool {
        (self.call.sp, self.call.pc) == (thread.context.sp, thread.context.ip)
    }
}

/// Returns the call that a thread sleeps in. The file that shows it belongs to the user of the process; who may trace the process and not
/// read that file stops the thread for a moment.
fn call_of(pid: i32, tid: i32) -> Option<InCall> {
    match InCall::read(pid, tid) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let _stop = Stop::as_it_is(pid, tid, false).ok()?;
            let call = InCall::of_registers(&ptrace::registers(tid).ok()?);
            (call.number >= 0).then_some(call)
        }
        read => read.ok()?,
    }
}

/// The threads that did not run before the process was stopped.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    by_tid: HashMap<i32, Sleeper>,
    stopped: HashSet<i32>,
    /// Threads that ran, or wanted to, when all were asked last.
    awake: HashSet<i32>,
}

impl Sleepers {
    /// Returns the threads that sleep. Of those in `known`, which have slept on since then, nothing is asked.
    pub(super) fn of(pid: i32, memory: &dyn Memory, known: Sleepers) -> Sleepers {
        let mut waits = Waits::of(pid, memory);
        let mut found = known;
        found.awake.clear();
        for tid in thread_ids(pid).unwrap_or_default() {
            if found.by_tid.contains_key(&tid) {
                continue;
            }
            let letter = thread_state(pid, tid);
            if matches!(letter, Some('T' | 't')) {
                found.stopped.insert(tid);
            }
            if !matches!(letter, Some('S' | 'D')) {
                found
                    .awake
                    .extend(letter.filter(|letter| *letter == 'R').map(|_| tid));
                continue;
            }
            // How long it has slept is asked first, because to learn its call may take a stop.
            let slept = slept_for(pid, tid);
            let asleep = Asleep::of(pid, tid);
            let call = asleep.as_ref().map(|asleep| *asleep.call());
            let Some(call) = call.or_else(|| call_of(pid, tid)) else {
                continue;
            };
            let wait = waits.wait(tid, &call, slept);
            let sleeper = Sleeper {
                call,
                wait,
                asleep,
                asked: Instant::now(),
            };
            found.by_tid.insert(tid, sleeper);
        }
        found
    }

    /// Returns what shows that threads sleep on, of those that are not among these.
    pub(super) fn beside(&self, known: &[Asleep]) -> Vec<Asleep> {
        let known: HashSet<i32> = known.iter().map(Asleep::tid).collect();
        let asleep = self.by_tid.values().filter_map(|one| one.asleep.as_ref());
        let others = asleep.filter(|asleep| !known.contains(&asleep.tid()));
        others.cloned().collect()
    }

    /// Returns the threads that wanted a processor before and after others were looked at there, and did not have one: those that `ran` did.
    pub(super) fn queued(&self, ran: &HashSet<i32>, earlier: &Earlier) -> Vec<i32> {
        let others = self.awake.difference(ran).copied();
        others
            .filter(|tid| earlier.wanted_processor(*tid))
            .collect()
    }

    /// Whether a thread is known to sleep.
    pub(super) fn has(&self, tid: i32) -> bool {
        self.by_tid.contains_key(&tid)
    }

    /// Whether a thread sleeps and nothing shows whether it sleeps on, or where its thread area is.
    pub(super) fn is_any_hidden(&self, pid: i32) -> bool {
        let unseen = self.by_tid.iter().filter(|(_, one)| one.asleep.is_none());
        unseen.into_iter().any(|(tid, _)| {
            let before = run_time(pid, *tid);
            let hidden = Asleep::of(pid, *tid).is_none();
            let sleeps = matches!(thread_state(pid, *tid), Some('S' | 'D'));
            hidden && sleeps && run_time(pid, *tid) == before
        })
    }

    /// Checks threads again that were elsewhere when they were copied than at the first check: they woke up and sleep again. Those that
    /// now sleep where they were copied are assumed to have slept there. This says nothing about what they held or wanted in between, so
    /// it proves no deadlock.
    pub(super) fn ask_again(&mut self, pid: i32, memory: &dyn Memory, threads: &[Thread]) {
        let mut waits = None;
        for thread in threads {
            let known = self.by_tid.get(&thread.tid);
            if known.is_some_and(|sleeper| sleeper.is_at(thread)) {
                continue;
            }
            if !matches!(thread_state(pid, thread.tid), Some('S' | 'D')) {
                continue;
            }
            let slept = slept_for(pid, thread.tid);
            let Some(call) = call_of(pid, thread.tid) else {
                continue;
            };
            let wait = waits
                .get_or_insert_with(|| Waits::of(pid, memory))
                .wait(thread.tid, &call, slept);
            let sleeper = Sleeper {
                call,
                wait,
                asleep: None,
                asked: Instant::now(),
            };
            self.by_tid.insert(thread.tid, sleeper);
        }
    }

    /// Returns those of the threads that were seen to sleep on which sleep on still, and which they are; with `asks` false that is not asked.
    /// They must be `wanted` by their ids and by how long ago they were asked.
    pub(super) fn still(
        mut self,
        stacks: &[Stack],
        asks: bool,
        wanted: impl Fn(i32, Duration) -> bool,
    ) -> (Sleepers, Vec<Asleep>) {
        let slept = |stack: &&Stack| stack.state.as_ref().is_some_and(|state| state.slept_on);
        let threads = stacks.iter().filter(|stack| stack.parked.is_none());
        let slept: HashSet<i32> = threads
            .filter(slept)
            .map(|stack| stack.thread.tid)
            .collect();
        self.by_tid.retain(|tid, sleeper| {
            let asleep = sleeper.asleep.as_ref();
            let sleeps_on = || asleep.is_some_and(|asleep| !asks || asleep.sleeps_on());
            slept.contains(tid) && wanted(*tid, sleeper.asked.elapsed()) && sleeps_on()
        });
        self.stopped.clear();
        let asleep = self.by_tid.values().filter_map(|one| one.asleep.clone());
        let asleep = asleep.collect();
        (self, asleep)
    }

    /// Returns what the thread of a stack does.
    pub(super) fn state(&self, process: &Process, owners: &Owners, stack: &Stack) -> State {
        let thread = &stack.thread;
        let sleeper = self.by_tid.get(&thread.tid);
        let sleeper = sleeper.filter(|sleeper| sleeper.is_at(thread));
        let mut known = process.vms.iter();
        let through = sleeper.map(|sleeper| Through {
            argument: sleeper.call.arguments[0],
            ..through(process, stack)
        });
        let through = through.unwrap_or_default();
        let vm = known.find_map(|vm| vm.thread(process.memory, thread, process.copies, &through));
        State {
            wait: sleeper.map(|sleeper| sleeper.wait.clone()),
            asks_for: sleeper
                .and_then(|sleeper| name_lookup::asked(&sleeper.wait.on, thread, process.copies)),
            stopped: self.stopped.contains(&thread.tid),
            held: sleeper
                .and_then(|sleeper| owners.held(process, stack, sleeper.wait.futex.as_ref()?)),
            through: through.function,
            vm,
            slept_on: false,
            still: false,
        }
    }

    /// Notes which threads have slept on until the data of all of them had been read: what one of them holds is told by the data of those
    /// that wait for it, too.
    pub(super) fn note_who_slept_on(&self, stacks: &mut [Stack]) {
        for stack in stacks {
            let sleeper = self.by_tid.get(&stack.thread.tid);
            let sleeper = sleeper.filter(|sleeper| sleeper.is_at(&stack.thread));
            let asleep = sleeper.and_then(|sleeper| sleeper.asleep.as_ref());
            if let Some(state) = stack.state.as_mut() {
                state.slept_on = asleep.is_some_and(Asleep::sleeps_on);
            }
        }
    }
}

/// Tells who has the VM's lock, where only those who wait for it lead to that, and since when they wait. A thread that waits for it wakes up
/// all the time to ask for it anew (each 5 ms in Python). It has run nothing of the language for as long as the one that has the lock has
/// slept with it.
pub(super) fn tell_turns(stacks: &mut [Stack]) {
    for waiting in 0..stacks.len() {
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

/// The same by the data of its VM.
fn by_its_vm(stacks: &[Stack], number: usize) -> Option<(Until, usize)> {
    let own = vm(stacks.get(number)?)?;
    let other = |is_it: &dyn Fn(&VmThread) -> bool| {
        (0..stacks.len()).find(|&at| at != number && vm(&stacks[at]).is_some_and(is_it))
    };
    stacks[number].state.as_ref()?.wait.as_ref()?;
    if let Some(mutex) = own.wants {
        return Some((Until::Unlocked, other(&|vm| vm.holds.contains(&mutex))?));
    }
    // Python's `Lock` is not reentrant, so its holder may be the thread itself.
    let is_holder = |at: &usize| {
        let holds = |mutex| vm(&stacks[*at]).is_some_and(|vm| vm.holds.contains(&mutex));
        own.may_want.is_some_and(holds)
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
    let is_it = |stack: &Stack| stack.parked.is_none() && stack.thread.tid == tid;
    let owner = stacks.iter().position(is_it)?;
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
            activity: process::snapshot::Activity::Unknown,
        };
        let mut stack = Stack::empty(&thread);
        stack.unplaced = vec![script("?", "?")];
        assert_eq!(stack.place(), None);
        stack.unplaced.push(script("/srv/app.py", "?"));
        let place = stack.place().expect("its file is known");
        assert_eq!(place.path, "/srv/app.py");
    }
}
