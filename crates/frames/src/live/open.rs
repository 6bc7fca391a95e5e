//! Reads the stacks of a running process, once or repeatedly. Used by `profile`, `between_looks` and others here, and
//! by the crates `lancet`, `calls` and `report`.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use process::asleep::Asleep;
use process::guest::Status;
use process::in_turn;
use process::launchers::Launchers;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::pagemap::{Pagemap, stack_around};
use process::pages::Pages;
use process::programs;
use process::room::Room;
use process::snapshot::{Overlay, Snapshot, Thread};
use process::sources::Sources;
use process::stop::thread_ids;
use process::wait::{others, retried};

use super::activity;
use super::between_looks::{Again, Kept};
use super::circles;
use super::loaded::{Loaded, Modules};
pub use super::look::Look;
use super::on_processors::OnProcessors;
use super::owners::Owners;
use super::scripts::{self, Coroutine, Found, Objects, Scripts};
use super::sleepers::{Shown, Sleepers};
use super::stack::{self, Process, Stack};
use super::standstill;
use super::unwind::Unwinder;
use crate::Result;

/// How long a process is tried again if not all of its threads stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two stops the process is left alone for so many times as long as the one before lasted, unless the user says how often to look.
pub const ALONE: u32 = 9;

/// A running process, opened to be looked at.
pub struct Live {
    pub(super) pid: i32,
    /// When the process was made ([`Status::start`]): another one may get its id when it has ended.
    pub(super) start: u64,
    pub(super) memory: GuestMemory,
    pub(super) maps: Maps,
    pub(super) modules: Modules,
    pub(super) vms: Vec<Box<dyn Scripts>>,
    pub(super) unread: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) unwinder: Unwinder,
    /// Stack pointer and program counter, by thread id, of threads that must be stopped although they sleep there.
    pub(super) stopped_at: HashMap<i32, (u64, u64)>,
    /// What is known of the threads that run.
    pub(super) on_processors: OnProcessors,
    /// Number of looks at the process so far.
    looks: u32,
    /// Recognises script files that a package manager has written.
    pub(super) launchers: Launchers,
    /// What [`Live::look_again`] has seen last.
    again: Option<Again>,
}

/// What a look reads, and what it asks of it.
pub(super) struct Reading<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) coroutines: &'a [(usize, Coroutine)],
    /// The threads that sleep, where it is asked what each thread does.
    pub(super) sleepers: Option<&'a mut Sleepers>,
    /// What shows that they sleep on.
    pub(super) shown: Shown<'a>,
    /// Whether references are counted.
    pub(super) count: bool,
}

/// What a look must find out, beside the stacks of the threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Whether to count the words of each frame that look like references to objects.
    pub count: bool,
    /// Whether to read the stacks of parked fibers and greenlets too.
    pub fibers: bool,
    /// Whether to find out what each thread does.
    pub states: bool,
    /// With `states`: whether to search other processes for the owners of what threads wait for ([`others`]).
    pub others: bool,
    /// Whether only the stacks of threads that run are asked for: none that sleeps is stopped, and what is said of its stack may be cut.
    pub running: bool,
}

impl Live {
    /// Finds out what is mapped in process `pid` and which VMs run there. The process is not stopped yet.
    pub fn open(pid: i32) -> Result<Live> {
        let start = Status::read(pid)?.start;
        let memory = GuestMemory::open(pid)?;
        process::elf::require_x86_64(pid).map_err(|error| process::Error::Elf { pid, error })?;
        let maps = Maps::of(pid)?;
        let modules = Modules::of_guest(pid, &maps, &memory)?;
        let Found { vms, unread, notes } = scripts::find(&modules, &memory, &Sources::of(pid));
        // All of that was read by the id.
        if Status::read(pid)?.start != start {
            return Err(process::Error::Gone(pid).into());
        }
        Ok(Live {
            pid,
            start,
            memory,
            maps,
            modules,
            vms,
            unread,
            notes,
            unwinder: Unwinder::default(),
            stopped_at: HashMap::new(),
            on_processors: OnProcessors::default(),
            looks: 0,
            launchers: Launchers::of(pid),
            again: None,
        })
    }

    /// Returns the files it has loaded.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Returns its memory as it is now, not as it was when it was stopped.
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// Returns the numbers of the files that have the interpreters of its VMs.
    pub fn interpreters(&self) -> Vec<usize> {
        let runners = self.vms.iter().flat_map(|vm| vm.runner());
        runners
            .filter_map(|code| self.modules.number(code.start))
            .collect()
    }

    /// Returns the languages it runs, with their versions.
    pub fn languages(&self) -> Vec<String> {
        self.vms.iter().map(|vm| vm.language()).collect()
    }

    /// Stops it, copies, lets it go on, and reads the copies.
    pub fn look(&mut self, wanted: Wanted) -> Result<Look> {
        self.find_vm_again()?;
        Ok(self.look_but(wanted, Kept::default())?.0)
    }

    /// The same for one look of many at the same process. A thread that has slept since the look before is not read again for a second:
    /// its stack cannot have changed, and a server with hundreds of idle threads is looked at as quickly as one with few. What its VM
    /// knows of it, who has the lock that it waits for among that, is so old too.
    pub fn look_again(&mut self, wanted: Wanted) -> Result<()> {
        let found = self.find_vm_again();
        let mut before = self.again.take();
        found?;
        let beside = match wanted.running {
            true => self.look_on_processors(wanted, &mut before),
            false => None,
        };
        let (look, sleepers) = match beside {
            Some(beside) => beside,
            None => {
                let kept = before.map(|before| before.kept(self.pid));
                self.look_but(wanted, kept.unwrap_or_default())?
            }
        };
        self.again = Some(Again::of(look, sleepers));
        Ok(())
    }

    /// Returns what [`Live::look_again`] has seen last; `None` before its first look and after one that failed.
    pub fn seen(&self) -> Option<&Look> {
        Some(&self.again.as_ref()?.look)
    }

    /// Looks at all threads but those that are `kept`.
    fn look_but(&mut self, wanted: Wanted, kept: Kept) -> Result<(Look, Sleepers)> {
        let (coroutines, all) = self.coroutines(wanted.fibers);
        let asleep = kept.sleepers.asleep();
        if wanted.fibers && self.refresh() && !asleep.is_empty() {
            // New code has been loaded, and the files have other numbers.
            return self.look_but(wanted, Kept::default());
        }
        // This comes before the stop, which interrupts a thread's sleep.
        let mut sleepers = match wanted.states {
            true => {
                let tids = thread_ids(self.pid).unwrap_or_default();
                Sleepers::of(self.pid, &self.memory, kept.sleepers, &tids, None)
            }
            false => Sleepers::default(),
        };
        let snapshot = self.stop_and_copy_all(wanted, &coroutines, &asleep)?;
        if wanted.states {
            sleepers.ask_again(self.pid, &self.memory, &snapshot.threads);
        }
        // Files that were loaded meanwhile are only in new maps.
        let elsewhere = |thread: &Thread| self.modules.number(thread.context.ip).is_none();
        if snapshot.threads.iter().any(elsewhere) && self.refresh() && !asleep.is_empty() {
            let (mut look, sleepers) = self.look_but(wanted, Kept::default())?;
            look.stopped += snapshot.stopped;
            return Ok((look, sleepers));
        }
        // One that has woken up meanwhile was copied with the others.
        let is_read = |tid: i32| snapshot.threads.iter().any(|thread| thread.tid == tid);
        let mut kept_stacks = kept.stacks;
        kept_stacks.retain(|(stack, _)| !is_read(stack.thread.tid));
        let tids = kept_stacks.iter();
        let tids = tids.map(|(stack, _)| stack.thread.tid).collect();
        let reading = Reading {
            snapshot: &snapshot,
            coroutines: &coroutines,
            sleepers: wanted.states.then_some(&mut sleepers),
            shown: Shown::Asked,
            count: wanted.count,
        };
        let (mut stacks, rooms) = self.read_copies(reading, kept_stacks);
        if wanted.others {
            self.find_others(&mut stacks);
        }
        let threads = stacks.iter().take_while(|stack| stack.parked.is_none());
        let threads = threads.count();
        let standstill = wanted.states && standstill::is(self.pid, &stacks[..threads]);
        let look = Look {
            standstill,
            all,
            stopped: snapshot.stopped,
            copied: snapshot.copies.size(),
            kept: tids,
            why_stopped: wanted.running.then(|| self.on_processors.why()),
            ..self.told(stacks, rooms, wanted)
        };
        Ok((look, sleepers))
    }

    /// Returns what is parked, if `fibers` are asked for, with the threads that no kernel thread may run; and whether that is all.
    fn coroutines(&self, fibers: bool) -> (Vec<(usize, Coroutine)>, bool) {
        let (mut coroutines, all) = match fibers {
            true => scripts::coroutines(&self.vms, &self.memory),
            false => (Vec::new(), true),
        };
        coroutines.extend(scripts::threads_apart(&self.vms, &self.memory));
        (coroutines, all)
    }

    /// Stops it and copies; once more, if it then shows that other threads must be stopped than those that were.
    fn stop_and_copy_all(
        &mut self,
        wanted: Wanted,
        coroutines: &[(usize, Coroutine)],
        kept: &[Asleep],
    ) -> Result<Snapshot> {
        let deadline = Instant::now() + PATIENCE;
        let mut snapshot = self.stop_and_copy(coroutines, kept, deadline)?;
        if self.note_who_must_stop(&snapshot, !wanted.running) {
            let before = snapshot.stopped;
            snapshot = self.stop_and_copy(coroutines, kept, deadline)?;
            snapshot.stopped += before;
        }
        Ok(snapshot)
    }

    /// Searches other processes for the owners of what threads wait for.
    fn find_others(&self, stacks: &mut [Stack]) {
        let waits = stacks.iter_mut().filter_map(|stack| stack.state.as_mut());
        let mut waits: Vec<_> = waits.filter_map(|state| state.wait.as_mut()).collect();
        others::find(self.pid, &mut waits);
        in_turn::note(self.pid, &mut waits);
        let states = stacks.iter_mut().filter_map(|stack| stack.state.as_mut());
        retried::note(self.pid, states.filter_map(activity::retries));
    }

    /// Returns a look that tells these stacks, with the memory of each, and what is to be said of the VMs: nobody was stopped for it, nothing copied
    /// or kept.
    pub(super) fn told(&self, stacks: Vec<Stack>, rooms: Vec<Room>, wanted: Wanted) -> Look {
        Look {
            standstill: false,
            stacks,
            rooms,
            all: true,
            unread: self.unread.clone(),
            notes: self.notes.clone(),
            not_read: scripts::not_read(&self.vms, wanted.fibers),
            stopped: Duration::ZERO,
            copied: 0,
            kept: HashSet::new(),
            late: HashSet::new(),
            queued: Vec::new(),
            again: 0,
            why_stopped: None,
        }
    }

    /// Reads the stacks in a snapshot, those of the threads first, with the memory that each has, and adds those that are `kept`.
    pub(super) fn read_copies(
        &mut self,
        reading: Reading,
        kept: Vec<(Stack, Room)>,
    ) -> (Vec<Stack>, Vec<Room>) {
        let snapshot = reading.snapshot;
        // A VM's data are asked for word by word, and each word would be a system call.
        let pages = Pages::new(&self.memory);
        let overlay = Overlay {
            copies: &snapshot.copies,
            rest: &pages,
        };
        let vms = self.vms.iter();
        let objects = vms.map(|vm| reading.count.then(|| vm.objects(&overlay))?);
        let objects: Vec<Option<Objects>> = objects.collect();
        let process = Process {
            modules: &self.modules,
            vms: &self.vms,
            memory: &overlay,
            copies: &snapshot.copies,
        };
        let areas = kept.iter().map(|(stack, _)| &stack.thread);
        let areas = snapshot.threads.iter().chain(areas);
        let areas = areas.map(|thread| (thread.tid, thread.context.thread_area));
        // Where none is read, what each does was told before.
        let known = reading.sleepers.filter(|_| !snapshot.threads.is_empty());
        let mut known = known.map(|sleepers| (sleepers, Owners::of(self.pid, areas)));
        let mut read = kept;
        for thread in &snapshot.threads {
            let mut stack = stack::read(&process, &mut self.unwinder, thread, &objects);
            tell_launchers(&mut self.launchers, &mut stack);
            let known = known.as_ref();
            stack.state = known.map(|(sleepers, owners)| sleepers.state(&process, owners, &stack));
            read.push((stack, Room::of(self.pid, &self.maps, &thread.mapping)));
        }
        read.sort_by_key(|(stack, _)| (!stack.thread.main, stack.thread.tid));
        let (mut stacks, mut rooms): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        if let Some((sleepers, owners)) = &mut known {
            sleepers.note_who_slept_on(&mut stacks, reading.shown);
            activity::tell_turns(&mut stacks);
            // This memory is read now, and may have changed since the stacks were copied.
            let now = Process {
                memory: &self.memory,
                ..process
            };
            circles::settle(self.pid, &now, owners, &mut stacks);
            activity::doubt_own(&mut stacks);
        }
        let pagemap = Pagemap::open(self.pid).ok();
        let mapping = |at: u64| stack_around(pagemap.as_ref(), &self.maps, at);
        for one in reading.coroutines {
            let stack = stack::read_parked(&process, &mut self.unwinder, one, &mapping, &objects);
            if let Some(mut stack) = stack {
                tell_launchers(&mut self.launchers, &mut stack);
                // A greenlet has no memory of its own, because it lies on a thread's stack.
                rooms.push(if stack.lines.is_empty() || stack.copied.is_some() {
                    Room::default()
                } else {
                    Room::of(self.pid, &self.maps, &stack.thread.mapping)
                });
                stacks.push(stack);
            }
        }
        (stacks, rooms)
    }

    /// Finds the sleeping threads whose stacks cannot be read without their registers, if `registers` may be asked for, or whose frames others have
    /// torn while they were copied; returns false if there are none. From now on they are stopped while they sleep at the same point.
    fn note_who_must_stop(&mut self, snapshot: &Snapshot, registers: bool) -> bool {
        let overlay = Overlay {
            copies: &snapshot.copies,
            rest: &self.memory,
        };
        let process = Process {
            modules: &self.modules,
            vms: &self.vms,
            memory: &overlay,
            copies: &snapshot.copies,
        };
        let mut found = false;
        for thread in &snapshot.threads {
            let sleeps_at = (thread.context.sp, thread.context.ip);
            if !snapshot.asleep.contains(&thread.tid) {
                continue;
            }
            if self
                .vms
                .iter()
                .any(|vm| vm.needs_stop() && vm.is_torn(process.memory, thread))
                || registers && stack::needs_registers(&process, &mut self.unwinder, thread)
            {
                self.stopped_at.insert(thread.tid, sleeps_at);
                found = true;
            }
        }
        found
    }

    /// Opens a process anew that has begun another program (execve(2)): its memory, its files and its VM are others. And searches once more
    /// for the VM of a process in which none was found: a program that has just begun loads its VM's library, and makes the VM, after we
    /// have opened it. The searches become less and less frequent, because most processes without a VM never get one.
    ///
    /// # Errors
    /// Its memory is gone, and there is no other to be opened.
    fn find_vm_again(&mut self) -> Result<()> {
        if self.memory.is_left() {
            *self = self.opened_anew()?;
        }
        self.looks = self.looks.saturating_add(1);
        if scripts::may_be_more(&self.vms) && self.looks > 1 && self.looks.is_power_of_two() {
            // Otherwise all that is known of it is still true.
            if let Ok(mut now) = self.opened_anew() {
                now.looks = self.looks;
                *self = now;
            }
        }
        Ok(())
    }

    /// The same process, opened as it is now. Another process may have its id by now, whose stacks are not to be told as this one's.
    fn opened_anew(&self) -> Result<Live> {
        let now = programs::at_present(self.pid, || Live::open(self.pid))?;
        match now.start == self.start {
            true => Ok(now),
            false => Err(process::Error::Gone(self.pid).into()),
        }
    }

    /// Reads the mappings again, and what depends on them if they have changed. Returns whether the files have other numbers now.
    pub(super) fn refresh(&mut self) -> bool {
        let maps = Maps::read(self.pid).ok().filter(|maps| *maps != self.maps);
        let read = maps.and_then(|maps| {
            let modules = Modules::of_guest(self.pid, &maps, &self.memory);
            Some((modules.ok()?, maps))
        });
        let Some((modules, maps)) = read else {
            return false;
        };
        let place = |loaded: &Loaded| (loaded.path.clone(), loaded.range.clone());
        let changed = !modules.iter().map(place).eq(self.modules.iter().map(place));
        self.maps = maps;
        self.modules = modules;
        self.unwinder = Unwinder::default();
        changed
    }
}

/// Notes which scripts of a stack a package manager has written.
pub(super) fn tell_launchers(launchers: &mut Launchers, stack: &mut Stack) {
    for script in stack.scripts_mut() {
        script.launcher = launchers.have(&script.path);
    }
}
