//! The threads of a process that sleep, and what shows that they sleep on. Used by `between_looks`, `open` and `running`.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use process::asleep::{Asleep, run_time};
use process::interrupted::InCall;
use process::ptrace;
use process::snapshot::Thread;
use process::stop::{Stop, thread_state};
use process::wait::{Wait, Waits, slept_for};
use vm::Memory;

use super::activity::through;
use super::earlier::Earlier;
use super::marks::Marks;
use super::name_lookup;
use super::owners::Owners;
use super::scripts::Through;
use super::stack::{Process, Stack};
use super::state::State;

/// A thread that slept before the process was stopped.
#[derive(Debug)]
struct Sleeper {
    call: InCall,
    wait: Wait,
    /// Shows whether it has slept since; `None` if the kernel or its C library does not allow that.
    asleep: Option<Asleep>,
    /// When it was asked.
    asked: Instant,
    /// Since when its mark shows whether it has left a processor ([`Marks::forget`]); 0 without marks.
    marked: u64,
    /// Whether it slept until its data had been read.
    slept_on: bool,
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
    /// Threads that were read when all were asked last.
    read: Vec<i32>,
}

/// What shows whether a thread has slept since it was read.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// How often the kernel has given it a processor, which each thread is asked.
    Asked,
    /// Its mark.
    Marked(&'a Marks),
    /// It is taken to sleep on as it did when it was asked last; one that was not is asked.
    Before,
}

impl Shown<'_> {
    /// Whether a thread sleeps on that is `known` to have done so when it was asked last. Another one is asked, even if it has no mark: it may
    /// have woken up, and have its processor still.
    fn sleeps_on(self, sleeper: &Sleeper, known: bool) -> bool {
        let Some(asleep) = &sleeper.asleep else {
            return false;
        };
        let is_marked = |marks: &Marks| marks.has_left(asleep.tid(), sleeper.marked);
        match self {
            Shown::Marked(marks) if is_marked(marks) => false,
            Shown::Marked(_) | Shown::Before if known => true,
            _ => asleep.sleeps_on(),
        }
    }
}

impl Sleepers {
    /// Returns which of these threads sleep. Of those in `known`, which have slept on since then, nothing is asked.
    pub(super) fn of(
        pid: i32,
        memory: &dyn Memory,
        known: Sleepers,
        tids: &[i32],
        marks: Option<&Marks>,
    ) -> Sleepers {
        let mut waits = Waits::of(pid, memory);
        let mut found = known;
        found.awake.clear();
        found.read.clear();
        for &tid in tids {
            if found.by_tid.contains_key(&tid) {
                continue;
            }
            let marked = marks.map_or(0, |marks| marks.forget(tid));
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
            let asked = Instant::now();
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
                asked,
                marked,
                slept_on: false,
            };
            found.by_tid.insert(tid, sleeper);
            found.read.push(tid);
        }
        found
    }

    /// The threads that sleep.
    pub(super) fn tids(&self) -> impl Iterator<Item = i32> {
        self.by_tid.keys().copied()
    }

    /// How many threads sleep.
    pub(super) fn len(&self) -> usize {
        self.by_tid.len()
    }

    /// Returns what shows that threads sleep on, of all of them.
    pub(super) fn asleep(&self) -> Vec<Asleep> {
        let asleep = self.by_tid.values().filter_map(|one| one.asleep.clone());
        asleep.collect()
    }

    /// The same of those that were read when all were asked last.
    pub(super) fn asleep_anew(&self) -> Vec<Asleep> {
        let read = self.read.iter().filter_map(|tid| self.by_tid.get(tid));
        read.filter_map(|one| one.asleep.clone()).collect()
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

    /// Whether a thread that was read when all were asked last sleeps and nothing shows whether it sleeps on, or where its thread area is.
    pub(super) fn is_any_hidden(&self, pid: i32) -> bool {
        let is_unseen = |tid: &i32| {
            let sleeper = self.by_tid.get(tid);
            sleeper.is_some_and(|sleeper| sleeper.asleep.is_none())
        };
        let mut unseen = self.read.iter().copied().filter(is_unseen);
        unseen.any(|tid| {
            let before = run_time(pid, tid);
            let hidden = Asleep::of(pid, tid).is_none();
            let sleeps = matches!(thread_state(pid, tid), Some('S' | 'D'));
            hidden && sleeps && run_time(pid, tid) == before
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
            let asked = Instant::now();
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
                asked,
                marked: 0,
                slept_on: false,
            };
            self.by_tid.insert(thread.tid, sleeper);
        }
    }

    /// Keeps those of the threads that were seen to sleep on which are `shown` to sleep on still. They must be `wanted` by their ids and by
    /// how long ago they were asked.
    pub(super) fn keep(&mut self, shown: Shown<'_>, wanted: impl Fn(i32, Duration) -> bool) {
        let now = Instant::now();
        self.by_tid.retain(|tid, sleeper| {
            let age = now.saturating_duration_since(sleeper.asked);
            sleeper.slept_on && wanted(*tid, age) && shown.sleeps_on(sleeper, true)
        });
        self.stopped.clear();
    }

    /// Returns and forgets those of the threads that were seen to sleep on which are not `shown` to sleep on still.
    pub(super) fn take_woken(&mut self, shown: Shown<'_>) -> Vec<i32> {
        let woken = self
            .by_tid
            .extract_if(|_, sleeper| sleeper.slept_on && !shown.sleeps_on(sleeper, true));
        woken.map(|(tid, _)| tid).collect()
    }

    /// Forgets threads that are awake.
    pub(super) fn forget(&mut self, tids: &HashSet<i32>) {
        for tid in tids {
            self.by_tid.remove(tid);
        }
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
            began: sleeper.and_then(|sleeper| sleeper.asked.checked_sub(sleeper.wait.asleep?)),
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
    pub(super) fn note_who_slept_on(&mut self, stacks: &mut [Stack], shown: Shown<'_>) {
        for stack in stacks {
            let sleeper = self.by_tid.get_mut(&stack.thread.tid);
            let sleeper = sleeper.filter(|sleeper| sleeper.is_at(&stack.thread));
            let slept_on = sleeper.is_some_and(|sleeper| {
                sleeper.slept_on = shown.sleeps_on(sleeper, sleeper.slept_on);
                sleeper.slept_on
            });
            if let Some(state) = stack.state.as_mut() {
                state.slept_on = slept_on;
            }
        }
    }
}
