//! Copies the stacks of a process at one instant. All threads that run are stopped, the registers and whole stacks of all are copied, and
//! the threads go on. A thread that sleeps in the kernel throughout is not stopped ([`crate::asleep`]). Unwinding, names and everything
//! else that takes time is done afterwards, on the copy. Used by the crates `frames`, `languages` and `calls`.
//!
//! ```text
//!   before   read the maps; find who sleeps, and copy of each what is wanted;
//!            make room for the copies of the others and touch it, so that no page fault comes in the stop;
//!            find what is wanted beside the stacks; copy the main thread's stack once and drop the copy:
//!            it is then in the processor's caches, and so is the kernel's code for it
//!   stop     seize, interrupt, wait: the rest ─┐
//!            process_vm_readv, registers       │ `stopped`
//!            who slept sleeps still            │ else once more, with those stopped
//!   go       detach                           ─┘
//!   after    unwinding, names, script frames
//! ```
//!
//! So a process does not stand longer because it has many threads that sleep. What was copied of them is kept apart from what is copied in
//! the stop: the two may lie in one page, and what a thread that runs had there before the stop is not what it has in it. The main thread
//! is copied in the stop even if it sleeps, because what is wanted of the whole process is copied with it.
//!
//! A thread in an uninterruptible wait (state D: a file server that does not answer, the parent in a `vfork`) does not stop before that
//! wait ends. It is copied like one that sleeps, with what can be read of it, and no other thread stands still for it.
//!
//! A stack is copied from 128 bytes below rsp (the red zone, psABI §3.2.2) to the end of its mapping, but for pages that were never touched
//! ([`Copies`]). Nothing is written into the guest.

mod copies;

pub use copies::{Copies, Overlay};

use crate::proc_file;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

pub use crate::asleep::Activity;
use crate::asleep::{Asleep, UNKNOWN};
use crate::error::{Error, Result};
use crate::guest::missing_thread;
use crate::interrupted;
use crate::maps::Maps;
use crate::pagemap::{self, LARGEST_STACK, Pagemap, Parts};
use crate::pid_namespace::ids_of_thread;
use crate::ptrace;
use crate::room::Room;
use crate::stop::{PATIENCE, Stop, thread_ids, thread_state};

/// The bytes below rsp that a function may use without moving it.
const RED_ZONE: u64 = 128;
/// Bytes of room that are touched before the stop. What does not fit is copied too, only slower.
const ROOM: usize = 1 << 20;
/// A main stack of which at most this many bytes were ever used is copied whole, before its registers are known.
const SMALL_STACK: u64 = 192 << 10;

/// The registers that unwinding begins with, and the address of thread-local data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindContext {
    /// rip: the address at which the thread goes on.
    pub ip: u64,
    /// rsp: the lowest address of its stack that is in use, apart from the red zone below.
    pub sp: u64,
    /// rbp: the frame pointer, where code is compiled with one.
    pub bp: u64,
    /// The fs base, which is what `pthread_self` returns.
    pub thread_area: u64,
}

/// A thread of a snapshot.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its id in the PID namespace of lancet.
    pub tid: i32,
    /// The id by which it knows itself, which is that of its own PID namespace.
    pub own_id: i32,
    /// Its name, from `/proc/PID/task/TID/comm`.
    pub name: String,
    /// Whether it is the first thread of the process, whose stack the kernel made.
    pub main: bool,
    /// Its registers when it was copied.
    pub context: UnwindContext,
    /// The part between guards of the mapping that its stack lies in; empty if rsp was in none.
    pub mapping: Range<u64>,
    /// What it did when it was about to be copied.
    pub activity: Activity,
}

impl UnwindContext {
    /// The registers of a thread that sleeps in the kernel, as far as the kernel shows them.
    fn of_sleeping(thread: &Asleep) -> UnwindContext {
        UnwindContext {
            ip: thread.call().pc,
            sp: thread.call().sp,
            bp: UNKNOWN,
            thread_area: thread.thread_area(),
        }
    }
}

impl Thread {
    /// A thread that had a processor with these registers, and whose stack lies in `mapping`.
    pub fn on_processor(pid: i32, tid: i32, context: UnwindContext, mapping: Range<u64>) -> Thread {
        let own_id = || ids_of_thread(pid, tid)?.last().copied();
        Thread {
            tid,
            own_id: own_id().unwrap_or(tid),
            name: name_of(pid, tid),
            main: tid == pid,
            context,
            mapping,
            activity: Activity::Ran,
        }
    }

    /// Returns the part of its stack that is in use, red zone included; `None` if rsp is in no mapping.
    fn used_stack(&self) -> Option<Range<u64>> {
        let from = self
            .context
            .sp
            .saturating_sub(RED_ZONE)
            .max(self.mapping.start);
        let used = from..self.mapping.end.min(from + LARGEST_STACK);
        (!self.mapping.is_empty()).then_some(used)
    }
}

/// The threads of a process and their stacks; see the module's documentation.
#[derive(Debug)]
pub struct Snapshot {
    /// The threads, the main one first.
    pub threads: Vec<Thread>,
    /// Their stacks, and the other ranges that were requested.
    pub copies: Copies,
    /// Ids of threads that slept and were not stopped. Their rbp is not known: it is [`crate::asleep::UNKNOWN`].
    pub asleep: Vec<i32>,
    /// How long those that were stopped stood still.
    pub stopped: Duration,
}

/// Which threads of a process a snapshot is taken of, and which of them must stand still for it.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Whether a thread that sleeps must be stopped, if it can be.
    pub must_stop: &'a dyn Fn(&Asleep) -> bool,
    /// Threads that are not copied, because what they do is known, as long as they sleep on. The main thread may not be one of them.
    pub kept: &'a [Asleep],
}

/// The threads that are not stopped for a snapshot.
struct Still<'a> {
    /// Those that are copied where they sleep.
    asleep: Vec<Asleep>,
    /// Those that are not copied.
    kept: Vec<&'a Asleep>,
}

/// For how long a stop goes on while the threads that sleep are asked whether they have slept on.
const CHECKED: Duration = Duration::from_millis(1);
/// How often a snapshot is begun again because a thread woke up; after that every thread is stopped.
const TRIES: u32 = 2;

impl Snapshot {
    /// Takes a snapshot of the threads that are `wanted`. While the guest stands,
    /// `more` is called once for each thread, with what has been copied by then, and returns what else must be copied; it must be quick.
    /// The ranges that it will `likely` return for the main thread are copied by the same system call as that thread's stack.
    pub fn take(
        pid: i32,
        maps: &Maps,
        likely: &[Range<u64>],
        wanted: Wanted,
        more: &mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Result<Snapshot> {
        let mut woke = HashSet::new();
        let mut held = HashSet::new();
        let mut tries = 0;
        let mut stopped = Duration::ZERO;
        loop {
            let may_sleep = tries < TRIES;
            let may = |thread: &Asleep| may_sleep && !woke.contains(&thread.tid());
            let kept: Vec<&Asleep> = wanted.kept.iter().filter(|thread| may(thread)).collect();
            let left = kept.iter().map(|thread| thread.tid()).collect();
            let still = Still {
                asleep: sleeping(pid, &held, &left, |thread| {
                    may(thread) && !(wanted.must_stop)(thread)
                })?,
                kept,
            };
            match Self::take_once(pid, maps, likely, &still, more) {
                Ok(Ok(mut snapshot)) => {
                    snapshot.stopped += stopped;
                    return Ok(snapshot);
                }
                Ok(Err(_)) if tries > TRIES => return Err(missing_thread(pid)),
                Ok(Err((tids, stood))) => {
                    woke.extend(tids);
                    stopped += stood;
                }
                // The next try does not stop this thread.
                Err(Error::WouldNotStop { tid, .. }) if is_held(pid, tid) && held.insert(tid) => {
                    continue;
                }
                Err(error) => return Err(error),
            }
            tries += 1;
        }
    }

    /// Copies threads that sleep, and stops nobody; those that wake up meanwhile are not in it.
    pub fn of_sleeping(
        pid: i32,
        maps: &Maps,
        asleep: &[Asleep],
        more: &mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Snapshot {
        let mut snapshot = Snapshot {
            threads: Vec::new(),
            copies: Copies::default(),
            asleep: Vec::new(),
            stopped: Duration::ZERO,
        };
        if asleep.is_empty() {
            return snapshot;
        }
        let pagemap = Pagemap::open(pid).ok();
        let mut taking = Taking::of(pid, maps, pagemap.as_ref(), more);
        taking.copy_sleeping(asleep.iter(), &mut snapshot.copies, &mut snapshot.threads);
        let sleep = asleep.iter().filter(|thread| thread.sleeps_on());
        snapshot.asleep = sleep.map(Asleep::tid).collect();
        let sleep: HashSet<i32> = snapshot.asleep.iter().copied().collect();
        snapshot
            .threads
            .retain(|thread| sleep.contains(&thread.tid));
        taking.complete(&mut snapshot.threads);
        snapshot
    }

    /// Takes a snapshot while the threads in `still` sleep. Returns those of them that woke up, if any, and how long the others stood.
    fn take_once(
        pid: i32,
        maps: &Maps,
        likely: &[Range<u64>],
        still: &Still,
        more: &mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Result<std::result::Result<Snapshot, (Vec<i32>, Duration)>> {
        let asleep = &still.asleep;
        let mut copies = Copies::with_room(ROOM);
        let pagemap = Pagemap::open(pid).ok();
        let mut taking = Taking::of(pid, maps, pagemap.as_ref(), more);
        let (mut earlier, mut threads) = (Copies::default(), Vec::with_capacity(64));
        let others = asleep.iter().filter(|thread| thread.tid() != pid);
        taking.copy_sleeping(others, &mut earlier, &mut threads);
        let used = taking.warm(likely, &mut copies);
        let left = asleep.iter().chain(still.kept.iter().copied());
        let left = left.map(Asleep::tid).collect();
        let stop = Stop::all_but(pid, &left)?;
        crate::fault::point("looking");
        let mut all: Vec<i32> = stop.threads().collect();
        let first = asleep.iter().find(|thread| thread.tid() == pid);
        all.extend(first.map(Asleep::tid));
        all.sort_by_key(|tid| *tid != pid);
        for tid in all {
            // The kernel shows no registers of a thread before it has left its processor. Until then its stack is copied.
            if tid == pid && size_of(&used) <= SMALL_STACK {
                copies.copy_all(taking.shown_by, &[&used, likely].concat());
            }
            let context = match first.filter(|_| tid == pid) {
                Some(thread) => Some(UnwindContext::of_sleeping(thread)),
                None => context_of(pid, tid)?,
            };
            if let Some(context) = context {
                let likely = if tid == pid { likely } else { &[] };
                let mut thread = taking.copy(tid, context, likely, &mut copies);
                thread.activity = match first.is_some_and(|first| first.tid() == tid) {
                    true => Activity::Slept,
                    false => stop.activity(tid),
                };
                threads.push(thread);
            }
        }
        let all: Vec<&Asleep> = asleep.iter().chain(still.kept.iter().copied()).collect();
        let (stopped, woke) = release(stop, &all);
        if !woke.is_empty() {
            return Ok(Err((woke, stopped)));
        }
        if threads.is_empty() {
            return Err(missing_thread(pid));
        }
        taking.complete(&mut threads);
        Ok(Ok(Snapshot {
            threads,
            copies: copies.over(earlier),
            asleep: asleep.iter().map(Asleep::tid).collect(),
            stopped,
        }))
    }
}

/// What copying the threads of a process needs.
struct Taking<'a> {
    pid: i32,
    /// The id of a living thread.
    shown_by: i32,
    own_ids: HashMap<i32, i32>,
    pagemap: Option<&'a Pagemap>,
    maps: Cow<'a, Maps>,
    more: &'a mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
}

impl<'a> Taking<'a> {
    fn of(
        pid: i32,
        maps: &'a Maps,
        pagemap: Option<&'a Pagemap>,
        more: &'a mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Self {
        Taking {
            pid,
            shown_by: proc_file::shown_by(pid),
            own_ids: own_ids(pid),
            pagemap,
            maps: Cow::Borrowed(maps),
            more,
        }
    }

    /// Copies threads where they sleep.
    fn copy_sleeping<'t>(
        &mut self,
        asleep: impl Iterator<Item = &'t Asleep>,
        copies: &mut Copies,
        threads: &mut Vec<Thread>,
    ) {
        for thread in asleep {
            let context = UnwindContext::of_sleeping(thread);
            let mut copied = self.copy(thread.tid(), context, &[], copies);
            copied.activity = Activity::Slept;
            threads.push(copied);
        }
    }

    /// Copies a thread's stack, the ranges that are `likely` wanted with it, and what else must be copied.
    fn copy(
        &mut self,
        tid: i32,
        context: UnwindContext,
        likely: &[Range<u64>],
        copies: &mut Copies,
    ) -> Thread {
        let mut thread = Thread {
            tid,
            own_id: *self.own_ids.get(&tid).unwrap_or(&tid),
            name: String::new(),
            main: tid == self.pid,
            context,
            mapping: pagemap::stack_above(self.pagemap, &self.maps, context.sp),
            activity: Activity::Unknown,
        };
        if thread.mapping.is_empty() && matches!(self.maps, Cow::Borrowed(_)) {
            // The mapping was made or has grown since the maps were read.
            self.maps = Cow::Owned(Maps::read(self.pid).unwrap_or_default());
            thread.mapping = pagemap::stack_above(self.pagemap, &self.maps, context.sp);
        }
        let stack = thread.used_stack().map(|stack| self.parts(stack));
        copies.copy_new(self.shown_by, stack.unwrap_or_default(), likely);
        let wanted = (self.more)(&thread, copies);
        copies.copy_new(self.shown_by, Parts::default(), &wanted);
        thread
    }

    fn parts(&self, range: Range<u64>) -> Parts {
        Parts::of(self.pagemap, &self.maps, range)
    }

    /// Copies what will probably be copied in the stop, while the process runs, and drops the copy; see the module's documentation. Returns
    /// the parts of the main thread's stack that were ever used.
    fn warm(&self, likely: &[Range<u64>], copies: &mut Copies) -> Vec<Range<u64>> {
        let stack = self.maps.iter().find(|mapping| mapping.is_named("[stack]"));
        let used = stack.map_or_else(Vec::new, |stack| {
            let used = Room::of(self.pid, &self.maps, &(stack.start..stack.end)).high_water;
            let used = stack.end - used.min(ROOM as u64)..stack.end;
            self.parts(used).touched
        });
        copies.copy_all(self.shown_by, &[&used, likely].concat());
        copies.clear();
        used
    }

    /// Adds what need not be known while the process stands, and sorts the threads.
    fn complete(&self, threads: &mut [Thread]) {
        for thread in threads.iter_mut() {
            thread.name = name_of(self.pid, thread.tid);
            let stack = std::mem::take(&mut thread.mapping);
            thread.mapping = pagemap::above_guard(self.pagemap, thread.context.sp, stack);
        }
        threads.sort_by_key(|thread| (thread.tid != self.pid, thread.tid));
    }
}

/// Returns the bytes of all ranges together.
fn size_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Lets the threads go on. Returns how long they stood still, and which of the threads in `asleep` woke up, those that could not be asked in
/// [`CHECKED`] maybe after the stop.
fn release(stop: Stop, asleep: &[&Asleep]) -> (Duration, Vec<i32>) {
    let until = Instant::now() + CHECKED;
    let woke = |thread: &&Asleep| !thread.sleeps_on();
    let (mut woken, mut unasked) = (Vec::new(), asleep.iter().copied());
    while Instant::now() < until
        && let Some(thread) = unasked.next()
    {
        woken.extend(Some(thread).filter(woke));
    }
    let stopped = stop.release();
    woken.extend(unasked.filter(woke));
    (stopped, woken.into_iter().map(Asleep::tid).collect())
}

/// Finds the sleeping threads that will not be stopped: those for which `may` returns true, and those that cannot be stopped, because they
/// are in an uninterruptible wait and are in `held` (they did not stop before) or have waited longer than a stop waits for them. Those that
/// are `left` out are not asked.
fn sleeping(
    pid: i32,
    held: &HashSet<i32>,
    left: &HashSet<i32>,
    may: impl Fn(&Asleep) -> bool,
) -> Result<Vec<Asleep>> {
    let asked = thread_ids(pid)?
        .into_iter()
        .filter(|tid| !left.contains(tid));
    let found = asked.filter_map(|tid| {
        if held.contains(&tid) || is_held(pid, tid) && slept(pid, tid) >= Some(PATIENCE) {
            return Asleep::in_kernel(pid, tid);
        }
        Asleep::of(pid, tid).filter(&may)
    });
    Ok(found.collect())
}

/// Whether a thread is in an uninterruptible wait.
fn is_held(pid: i32, tid: i32) -> bool {
    thread_state(pid, tid) == Some('D')
}

/// Returns how long a thread has slept, if the kernel shows it.
fn slept(pid: i32, tid: i32) -> Option<Duration> {
    interrupted::slept(pid, tid).map(|(time, _)| time)
}

/// Returns the name of a thread; empty if it has ended.
fn name_of(pid: i32, tid: i32) -> String {
    let name = proc_file::of_thread(pid, tid, "comm");
    name.unwrap_or_default().trim_end().to_owned()
}

/// Returns the registers of a stopped thread; `None` if it was killed meanwhile.
fn context_of(pid: i32, tid: i32) -> Result<Option<UnwindContext>> {
    match ptrace::registers(tid) {
        Ok(registers) => Ok(Some(UnwindContext {
            ip: registers.rip,
            sp: registers.rsp,
            bp: registers.rbp,
            thread_area: registers.fs_base,
        })),
        Err(nix::errno::Errno::ESRCH) => Ok(None),
        Err(errno) => Err(ptrace::explain(pid, "reading a thread's registers", errno)),
    }
}

/// Returns the ids by which the threads of a process know themselves, if those are others than ours. A thread that begins later is not among
/// them.
fn own_ids(pid: i32) -> HashMap<i32, i32> {
    let own = |tid: i32| ids_of_thread(pid, tid)?.last().copied();
    if own(pid).is_none_or(|own| own == pid) {
        return HashMap::new();
    }
    let threads = thread_ids(pid).unwrap_or_default().into_iter();
    threads.filter_map(|tid| Some((tid, own(tid)?))).collect()
}

#[cfg(test)]
mod tests;
