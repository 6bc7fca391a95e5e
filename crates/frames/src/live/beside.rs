//! Reads the threads that one look without a stop has found: those that were copied on their processors, and those that sleep. Used by
//! `running`.
//!
//! Who ran is told as of the interrupts, and who sleeps as of some moments later, so one that has fallen asleep in between does both, and one that
//! has woken neither: as many are of the one kind as of the other. To read one that sleeps takes a while, and of those that wake up within it
//! nothing is known. In their place stand those that fall asleep within it (`profile::waits`).

use std::collections::HashSet;

use process::asleep::Asleep;
use process::pages::Pages;
use process::room::Room;
use process::snapshot::{Activity, Copies, Overlay, Snapshot, Thread, UnwindContext};
use process::stop::thread_state;

use super::activity;
use super::between_looks::Kept;
use super::earlier::Earlier;
use super::look::Look;
use super::open::{Live, Reading, Wanted, tell_launchers};
use super::running::Beside;
use super::scripts::{self, Through, VmThread};
use super::sleepers::{Shown, Sleepers};
use super::stack::{self, Process, Stack};
use super::state::State;

/// Why looks are made by stops.
const HIDDEN: &str = "a thread that sleeps cannot be read otherwise: it has no list of robust mutexes, as glibc makes one, or the kernel no schedstat";

/// What is known of a process when its sleeping threads are read.
pub(super) struct Moment<'a> {
    pub(super) earlier: &'a Earlier,
    pub(super) beside: &'a Beside,
    pub(super) shown: Shown<'a>,
}

/// The threads that sleep.
struct Sleeping {
    stacks: Vec<(Stack, Room)>,
    sleepers: Sleepers,
    /// What a look tells of them: [`Look::kept`], [`Look::late`], [`Look::queued`].
    kept: HashSet<i32>,
    late: HashSet<i32>,
    queued: Vec<i32>,
    /// Whether some were read, and how many bytes were copied of them.
    is_any_read: bool,
    copied: u64,
    /// Those that were asked and not read.
    unread: HashSet<i32>,
}

impl Live {
    /// Reads the threads that were copied on their processors, and those that sleep, which are copied now. `None` where one that sleeps can
    /// be read only by a stop.
    pub(super) fn look_beside(
        &mut self,
        wanted: Wanted,
        kept: Kept,
        moment: &Moment,
    ) -> Option<(Look, Sleepers)> {
        let Moment {
            earlier, beside, ..
        } = *moment;
        // Soon after the interrupts, because it may change.
        let threads = beside.threads.iter();
        let known: Vec<Option<VmThread>> = threads
            .map(|(thread, copies)| self.known_by_vm(thread, copies))
            .collect();
        let sleeping = self.read_sleeping(wanted, kept, moment)?;
        let mut stacks = sleeping.stacks;
        stacks.extend(self.read_all_running(beside, known));
        let unread = sleeping.unread.into_iter().filter(|tid| {
            let sleeps = || matches!(thread_state(self.pid, *tid), Some('S' | 'D'));
            earlier.slept(*tid) && sleeps()
        });
        stacks.extend(unread.map(|tid| (self.slept(tid), Room::default())));
        let is_any_both = sleeping.is_any_read && !beside.threads.is_empty();
        let (stacks, rooms) = in_order(stacks, is_any_both);
        let look = Look {
            stopped: beside.took,
            copied: sleeping.copied,
            kept: sleeping.kept,
            late: sleeping.late,
            queued: sleeping.queued,
            again: beside.again,
            ..self.told(stacks, rooms, wanted)
        };
        Some((look, sleeping.sleepers))
    }

    /// Reads the threads that sleep, beside those that are `kept`.
    fn read_sleeping(
        &mut self,
        wanted: Wanted,
        mut kept: Kept,
        moment: &Moment,
    ) -> Option<Sleeping> {
        let Moment {
            earlier,
            beside,
            shown,
        } = *moment;
        let coroutines = match kept.stacks.is_empty() {
            true => scripts::threads_apart(&self.vms, &self.memory),
            false => Vec::new(),
        };
        let ran: HashSet<i32> = beside.threads.iter().map(|(one, _)| one.tid).collect();
        let mut tids: HashSet<i32> = kept.keep(shown, &ran).into_iter().collect();
        tids.extend(earlier.asked());
        let mut stacks = kept.stacks;
        let still = stacks.iter().map(|(stack, _)| stack.thread.tid).collect();
        let (mut sleepers, first) = self.asleep_of(kept.sleepers, &tids)?;
        let queued = sleepers.queued(&ran, earlier);
        for thread in &first.threads {
            tids.remove(&thread.tid);
        }
        sleepers.forget(&tids);
        tids.extend(sleepers.take_woken(shown));
        let (mut sleepers, second) = self.asleep_of(sleepers, &tids)?;
        for (snapshot, coroutines) in [(&first, &coroutines[..]), (&second, &[])] {
            if snapshot.threads.is_empty() && coroutines.is_empty() {
                continue;
            }
            let reading = Reading {
                snapshot,
                coroutines,
                sleepers: Some(&mut sleepers),
                shown,
                count: wanted.count,
            };
            let (read, rooms) = self.read_copies(reading, stacks);
            stacks = read.into_iter().zip(rooms).collect();
        }
        let late: HashSet<i32> = second.threads.iter().map(|thread| thread.tid).collect();
        tids.retain(|tid| !late.contains(tid));
        Some(Sleeping {
            stacks,
            sleepers,
            kept: still,
            is_any_read: !first.threads.is_empty() || !late.is_empty(),
            late,
            queued,
            copied: first.copies.size() + second.copies.size(),
            unread: tids,
        })
    }

    /// Returns which of these threads sleep, beside those that are `known` to, and copies them. `None` where one can be read only by a stop.
    fn asleep_of(&mut self, known: Sleepers, tids: &HashSet<i32>) -> Option<(Sleepers, Snapshot)> {
        let tids: Vec<i32> = tids.iter().copied().collect();
        let marks = self.on_processors.marks.as_deref();
        let sleepers = Sleepers::of(self.pid, &self.memory, known, &tids, marks);
        if sleepers.is_any_hidden(self.pid) {
            self.on_processors.go_by_stops(HIDDEN);
            return None;
        }
        let snapshot = self.copy_sleeping(&sleepers.asleep_anew());
        Some((sleepers, snapshot))
    }

    /// Reads the stacks of all threads that were copied on their processors; `known` is what the VM knows of each.
    fn read_all_running(
        &mut self,
        beside: &Beside,
        known: Vec<Option<VmThread>>,
    ) -> Vec<(Stack, Room)> {
        let running = beside.threads.iter().zip(known);
        let read = running.map(|((thread, copies), known)| {
            let stack = self.read_running(thread, copies, known);
            (stack, Room::default())
        });
        read.collect()
    }

    /// Copies threads that sleep.
    fn copy_sleeping(&self, asleep: &[Asleep]) -> Snapshot {
        let wanted = &mut |thread: &Thread, copied: &Copies| self.wanted_of(thread, copied);
        Snapshot::of_sleeping(self.pid, &self.maps, asleep, wanted)
    }

    /// Returns what the VM knows of a thread that runs: its name, and what others wait for at it.
    fn known_by_vm(&self, thread: &Thread, copies: &Copies) -> Option<VmThread> {
        let pages = Pages::new(&self.memory);
        let overlay = Overlay {
            copies,
            rest: &pages,
        };
        let through = Through::default();
        let mut vms = self.vms.iter();
        let known = vms.find_map(|vm| vm.thread(&overlay, thread, copies, &through))?;
        // It waits for nothing.
        Some(VmThread {
            id: known.id,
            name: known.name,
            turn: known.turn,
            holds: known.holds,
            joined_by: known.joined_by,
            ..VmThread::default()
        })
    }

    /// Reads the stack of a thread that was copied on its processor.
    fn read_running(&mut self, thread: &Thread, copies: &Copies, vm: Option<VmThread>) -> Stack {
        let pages = Pages::new(&self.memory);
        let overlay = Overlay {
            copies,
            rest: &pages,
        };
        let process = Process {
            modules: &self.modules,
            vms: &self.vms,
            memory: &overlay,
            copies,
        };
        let objects: Vec<_> = self.vms.iter().map(|_| None).collect();
        let mut stack = stack::read(&process, &mut self.unwinder, thread, &objects);
        tell_launchers(&mut self.launchers, &mut stack);
        stack.state = Some(State {
            vm,
            ..State::default()
        });
        stack
    }

    /// A thread that sleeps, of which nothing else is known.
    fn slept(&self, tid: i32) -> Stack {
        let context = UnwindContext::default();
        let mut thread = Thread::on_processor(self.pid, tid, context, 0..0);
        thread.activity = Activity::Slept;
        Stack::empty(&thread)
    }
}

/// Returns stacks, with the memory of each, as a look tells them: the main thread first, what is parked last. If threads that run and threads
/// that sleep were `both` read, it may show now who has the lock of the VM.
fn in_order(mut all: Vec<(Stack, Room)>, both: bool) -> (Vec<Stack>, Vec<Room>) {
    all.sort_by_key(|(stack, _)| {
        let parked = stack.parked.is_some();
        (parked, !parked && !stack.thread.main)
    });
    let (mut stacks, rooms): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    if both {
        activity::tell_turns(&mut stacks);
    }
    (stacks, rooms)
}
