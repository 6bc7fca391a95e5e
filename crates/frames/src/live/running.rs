//! Looks at threads that run without a stop: each is copied on its processor, within an interrupt (`tracepoint::Running`), where the kernel
//! lets lancet do that. Used by `open`.
//!
//! The interrupt can copy only what it was told to copy before it. That is the stack, and the pages that the readers of the VMs have needed of
//! this process lately. Whether they hold all of the frames is found out afterwards, by the walk that asks what must be copied
//! ([`Scripts::wanted`](super::scripts::Scripts::wanted)): if it reads anything, or wants anything, that was not copied, then what it would see of that belongs to a later
//! moment. Such a copy is dropped, and the thread that then has the processor is copied, with those pages too. So what is shown of a thread
//! that runs has all been copied between two of its instructions. What else is read of it, the names and lines of its code, does not change
//! while it runs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use process::asleep::{Asleep, thread_area};
use process::pagemap::{Pagemap, stack_around};
use process::pages::Pages;
use process::processors::are_several;
use process::ptrace;
use process::room::Room;
use process::snapshot::{Copies, Overlay, Snapshot, Thread, UnwindContext};
use process::stop::{Stop, any_runs};
use tracepoint::{Asked, DEEPEST, LISTED, PAGE, Running, Seen};

use super::activity::Sleepers;
use super::between_looks::{Again, Kept};
use super::look::Look;
use super::noted::Noted;
use super::open::{Live, Reading, Wanted};
use super::scripts;
use super::stack::{self, Process, Stack};
use super::state::State;
use crate::Result;

/// How often a processor is looked at again for a thread whose frames were not all copied.
const TRIES: u32 = 4;
/// After so many looks in a row in which that did not do, threads are stopped instead for [`STOPPED`] looks.
const FAILURES: u32 = 3;
const STOPPED: u32 = 100;
/// A page is copied for so many looks after it was needed last.
const LOOKS: u64 = 64;
/// What is known of threads is read again after so many looks, or where it is known of so many.
const NAMED: u64 = 256;
const MOST_THREADS: usize = 1 << 12;
/// Pages of a stack that are copied before any was seen.
const SHALLOW: usize = 16;
/// Of more processors, and where several processes are looked at, none is interrupted for a process of which no thread wants one.
const FEW: usize = 8;
/// The threads that sleep are asked whether they have slept on at most for one part in so many of the time.
const SHARE: u32 = 20;

/// What lancet runs on processors, made when it is first wanted; it serves all processes.
enum Program {
    Unmade,
    Made(Running),
    /// The kernel does not allow it, or cannot do it.
    Refused,
}

/// Whether lancet may use several processors; asked once, because it goes away from those that others want (`Apart`).
static SEVERAL: OnceLock<bool> = OnceLock::new();

thread_local! {
    static PROGRAM: RefCell<Program> = const { RefCell::new(Program::Unmade) };
    /// The process for which it was run last.
    static SERVED: Cell<i32> = const { Cell::new(0) };
}

/// What is known of the threads of a process that run, between two looks.
pub(super) struct OnProcessors {
    /// The threads that were seen, by their ids and the addresses of their tasks.
    threads: HashMap<(i32, u64), Thread>,
    /// Pages that readers have needed, by the number of the look in which they did last.
    pages: BTreeMap<u64, u64>,
    /// How many pages of a stack are copied.
    depth: usize,
    look: u64,
    /// Looks in a row that have failed, and how many are still to be made by stops.
    failed: u32,
    stops: u32,
    /// When sleeping threads were asked last, and how long that took.
    asked: Option<(Instant, Duration)>,
}

impl Default for OnProcessors {
    fn default() -> Self {
        OnProcessors {
            threads: HashMap::new(),
            pages: BTreeMap::new(),
            depth: SHALLOW,
            look: 0,
            failed: 0,
            stops: 0,
            asked: None,
        }
    }
}

/// The threads that had a processor in one look.
#[derive(Default)]
pub(super) struct Beside {
    threads: Vec<(Thread, Copies)>,
    /// How long they were kept from going on.
    took: Duration,
    /// How often one was copied once more.
    again: u64,
    /// Whether files were loaded since the look before, so that they have other numbers.
    pub(super) is_elsewhere: bool,
}

/// What was found on a processor.
enum Found {
    Nobody,
    Whole(Thread, Copies),
    /// Not all of its frames were copied.
    InPart,
}

impl Live {
    /// Copies the threads that have a processor now. `None`: that cannot be done, and they must be stopped.
    pub(super) fn copy_running(&mut self) -> Option<Beside> {
        // Where there is no processor but the one that lancet has, nobody else is on it.
        if !*SEVERAL.get_or_init(are_several) {
            return None;
        }
        self.copy_on_processors()
    }

    fn copy_on_processors(&mut self) -> Option<Beside> {
        if self.on_processors.stops > 0 {
            self.on_processors.stops -= 1;
            return None;
        }
        self.on_processors.look += 1;
        let beside = PROGRAM.with_borrow_mut(|program| {
            let running = made(program, self.pid)?;
            let before = SERVED.replace(self.pid);
            let are_many = running.processors() > FEW || before != self.pid && before != 0;
            if are_many && !any_runs(self.pid) {
                return Some(Some(Beside::default()));
            }
            match self.copy_each(running) {
                Ok(beside) => Some(beside),
                Err(_) => {
                    *program = Program::Refused;
                    None
                }
            }
        })?;
        self.on_processors.end_look(beside.is_some());
        beside
    }

    /// Looks at each processor; `None` where the frames of a thread could not all be copied.
    fn copy_each(&mut self, running: &mut Running) -> std::io::Result<Option<Beside>> {
        let mut beside = Beside::default();
        for processor in 0..running.processors() {
            let mut tries = 0;
            loop {
                let found = match self.copy_on(running, processor, &mut beside) {
                    // It is off.
                    Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) => Found::Nobody,
                    found => found?,
                };
                match found {
                    Found::Nobody => break,
                    Found::Whole(thread, copies) => {
                        // One that has moved to another processor meanwhile is seen twice.
                        if beside.threads.iter().all(|(one, _)| one.tid != thread.tid) {
                            beside.threads.push((thread, copies));
                        }
                        break;
                    }
                    Found::InPart if tries == TRIES => return Ok(None),
                    Found::InPart => {
                        tries += 1;
                        beside.again += 1;
                    }
                }
            }
        }
        Ok(Some(beside))
    }

    /// Copies the thread that has a processor.
    fn copy_on(
        &mut self,
        running: &mut Running,
        processor: usize,
        beside: &mut Beside,
    ) -> std::io::Result<Found> {
        let pages = self.on_processors.listed();
        let asked = Asked {
            pid: self.pid,
            pages: &pages,
            stack: self.on_processors.depth,
        };
        let Some(seen) = running.look(processor, &asked)? else {
            return Ok(Found::Nobody);
        };
        beside.took += seen.took;
        let (tid, task, [ip, sp, bp]) = (seen.tid, seen.task, seen.registers);
        let deep = seen.stack().1.len() / PAGE;
        let copies = self.on_processors.copies(&seen, &pages);
        if self.maps.find(sp).is_none() || self.maps.find(ip).is_none() {
            beside.is_elsewhere |= self.refresh();
        }
        let Some(mut thread) = self.thread(tid, task, sp) else {
            // It has ended meanwhile.
            return Ok(Found::Nobody);
        };
        let thread_area = thread.context.thread_area;
        thread.context = UnwindContext {
            ip,
            sp,
            bp,
            thread_area,
        };
        let used = thread.mapping.end.saturating_sub(sp) as usize / PAGE + 2;
        let is_cut = deep == self.on_processors.depth && deep < used.min(DEEPEST);
        if is_cut {
            self.on_processors.depth = used.min(DEEPEST);
        }
        Ok(match self.is_whole(&thread, &copies) && !is_cut {
            true => Found::Whole(thread, copies),
            false => Found::InPart,
        })
    }

    /// Returns what is known of a thread that had a processor with this stack pointer; `None` if it is gone.
    fn thread(&mut self, tid: i32, task: u64, sp: u64) -> Option<Thread> {
        let known = self.on_processors.threads.get(&(tid, task));
        if let Some(known) = known.filter(|known| known.mapping.contains(&sp)) {
            return Some(known.clone());
        }
        let thread_area = match known {
            Some(known) => known.context.thread_area,
            None => area_of(self.pid, tid)?,
        };
        let pagemap = Pagemap::open(self.pid).ok();
        let mapping = stack_around(pagemap.as_ref(), &self.maps, sp);
        let context = UnwindContext {
            thread_area,
            ..UnwindContext::default()
        };
        let thread = Thread::on_processor(self.pid, tid, context, mapping);
        let threads = &mut self.on_processors.threads;
        threads.insert((tid, task), thread.clone());
        Some(thread)
    }

    /// Whether all that leads to a thread's frames was copied; notes what does.
    fn is_whole(&mut self, thread: &Thread, copies: &Copies) -> bool {
        let noted = Noted::of(copies, &self.memory);
        for vm in &self.vms {
            for range in vm.wanted(&noted, thread, copies) {
                noted.need(&range);
            }
        }
        let (pages, is_whole) = noted.told();
        self.on_processors.need(pages);
        is_whole
    }

    /// Returns the threads that sleep on. Whether they do is asked more seldom the longer it takes to ask.
    pub(super) fn kept_beside(&mut self, before: Again) -> Kept {
        let asked = self.on_processors.asked;
        let asks = asked.is_none_or(|(last, took)| last.elapsed() >= took * SHARE);
        let began = Instant::now();
        let kept = before.kept_beside(asks);
        if asks {
            self.on_processors.asked = Some((Instant::now(), began.elapsed()));
        }
        kept
    }

    /// Reads the threads that were copied on their processors, and those that sleep, which are copied now.
    pub(super) fn look_beside(
        &mut self,
        wanted: Wanted,
        kept: Kept,
        beside: Beside,
    ) -> Result<(Look, Sleepers)> {
        let coroutines = match kept.stacks.is_empty() {
            true => scripts::threads_apart(&self.vms, &self.memory),
            false => Vec::new(),
        };
        let mut sleepers = Sleepers::of(self.pid, &self.memory, kept.sleepers);
        let snapshot = self.copy_sleeping(&sleepers.beside(&kept.asleep));
        sleepers.ask_again(self.pid, &self.memory, &snapshot.threads);
        let ran: HashSet<i32> = beside
            .threads
            .iter()
            .map(|(thread, _)| thread.tid)
            .collect();
        let read = snapshot.threads.iter().map(|thread| thread.tid);
        let read: HashSet<i32> = read.chain(ran.iter().copied()).collect();
        let mut kept_stacks = kept.stacks;
        kept_stacks.retain(|(stack, _)| !read.contains(&stack.thread.tid));
        let tids: HashSet<i32> = kept_stacks
            .iter()
            .map(|(stack, _)| stack.thread.tid)
            .collect();
        let reading = Reading {
            snapshot: &snapshot,
            coroutines: &coroutines,
            sleepers: Some(&sleepers),
            count: wanted.count,
        };
        let (stacks, rooms) = self.read_copies(&reading, kept_stacks);
        // One that sleeps now had a processor before.
        let both = stacks.into_iter().zip(rooms);
        let both = both.filter(|(stack, _)| !ran.contains(&stack.thread.tid));
        let (mut stacks, mut rooms): (Vec<_>, Vec<_>) = both.unzip();
        for (thread, copies) in &beside.threads {
            stacks.insert(0, self.read_running(thread, copies));
            rooms.insert(0, Room::default());
        }
        self.tell_launchers(&mut stacks);
        let look = Look {
            standstill: false,
            stacks,
            rooms,
            all: true,
            unread: self.unread.clone(),
            notes: self.notes.clone(),
            not_read: scripts::not_read(&self.vms, wanted.fibers),
            stopped: beside.took,
            copied: snapshot.copies.size(),
            kept: tids,
            queued: sleepers.queued(&ran),
            again: beside.again,
        };
        Ok((look, sleepers))
    }

    /// Copies threads that sleep.
    fn copy_sleeping(&self, asleep: &[Asleep]) -> Snapshot {
        let Live { vms, memory, .. } = self;
        Snapshot::of_sleeping(self.pid, &self.maps, asleep, &mut |thread, copied| {
            let overlay = Overlay {
                copies: copied,
                rest: memory,
            };
            let wanted = vms.iter();
            wanted
                .flat_map(|vm| vm.wanted(&overlay, thread, copied))
                .collect()
        })
    }

    /// Reads the stack of a thread that was copied on its processor.
    fn read_running(&mut self, thread: &Thread, copies: &Copies) -> Stack {
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
        stack.state = Some(State::default());
        stack
    }
}

/// Returns what is run on processors, if it may be, for a process.
fn made(program: &mut Program, pid: i32) -> Option<&mut Running> {
    if let Program::Unmade = program {
        *program = match Running::begin() {
            Ok(running) => Program::Made(running),
            Err(_) => Program::Refused,
        };
    }
    match program {
        Program::Made(running) if running.require(pid).is_ok() => Some(running),
        _ => None,
    }
}

impl OnProcessors {
    /// Returns the pages that are copied, by rising address.
    fn listed(&self) -> Vec<u64> {
        let mut pages: Vec<(u64, u64)> = self
            .pages
            .iter()
            .map(|(page, used)| (*used, *page))
            .collect();
        if pages.len() > LISTED {
            pages.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
            pages.truncate(LISTED);
        }
        let mut pages: Vec<u64> = pages.into_iter().map(|(_, page)| page).collect();
        pages.sort_unstable();
        pages
    }

    /// Notes that pages are needed.
    fn need(&mut self, pages: HashSet<u64>) {
        let look = self.look;
        // A walk that reads more sees something else than frames.
        if pages.len() <= LISTED {
            self.pages
                .extend(pages.into_iter().map(|page| (page, look)));
        }
    }

    /// Notes whether a look was made; forgets pages that were needed long ago, and threads where there are too many.
    fn end_look(&mut self, is_made: bool) {
        self.failed = if is_made { 0 } else { self.failed + 1 };
        if self.failed == FAILURES {
            (self.failed, self.stops) = (0, STOPPED);
        }
        let look = self.look;
        self.pages.retain(|_, used| look - *used < LOOKS);
        // Names and mappings of threads change, but seldom.
        if look.is_multiple_of(NAMED) || self.threads.len() > MOST_THREADS {
            self.threads.clear();
        }
    }

    /// Returns the copies of a thread; forgets pages that could not be copied.
    fn copies(&mut self, seen: &Seen, pages: &[u64]) -> Copies {
        let mut copies = Copies::default();
        let (at, stack) = seen.stack();
        copies.add(at, stack);
        // What lies in a row is one piece.
        let mut row: Option<(u64, Vec<u8>)> = None;
        for (page, bytes) in pages.iter().zip(seen.listed()) {
            let Some(bytes) = bytes else {
                self.pages.remove(page);
                continue;
            };
            match &mut row {
                Some((at, row)) if *at + row.len() as u64 == *page => row.extend_from_slice(bytes),
                _ => {
                    if let Some((at, row)) = row.replace((*page, bytes.to_vec())) {
                        copies.add(at, &row);
                    }
                }
            }
        }
        if let Some((at, row)) = row {
            copies.add(at, &row);
        }
        copies
    }
}

/// Returns the fs base of a thread. Where the C library does not lead to it, the thread is stopped once.
fn area_of(pid: i32, tid: i32) -> Option<u64> {
    let stopped = || {
        let _stop = Stop::as_it_is(pid, tid, false).ok()?;
        Some(ptrace::registers(tid).ok()?.fs_base)
    };
    thread_area(tid).or_else(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::snapshot::Activity;
    use std::process::{Child, Command};

    const LOOKS_AT_ONE: u32 = 100;

    fn spins() -> Child {
        let script = "def spin():\n    while True: pass\nspin()";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script]).spawn().expect("Debian's own")
    }

    /// Looks at a program that spins until so many looks have seen its function on a processor; before each look `before` is called.
    fn is_seen(before: fn()) {
        let mut child = spins();
        let pid = child.id() as i32;
        let wanted = Wanted {
            states: true,
            running: true,
            ..Wanted::default()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut live = Live::open(pid).expect("ours");
        let mut seen = 0;
        while seen < LOOKS_AT_ONE {
            assert!(Instant::now() < deadline, "seen in {seen} looks");
            before();
            if live.look_again(wanted).is_err() {
                // It has just begun.
                live = Live::open(pid).expect("ours");
                continue;
            }
            let look = live.seen().expect("a look");
            let ran = |stack: &&Stack| stack.thread.activity == Activity::Ran;
            let mut scripts = look.stacks.iter().filter(ran).flat_map(Stack::scripts);
            seen += u32::from(scripts.any(|script| script.name == "spin"));
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    /// As for an ordinary user.
    #[test]
    fn another_process_that_spins_is_seen_where_the_kernel_allows_no_program() {
        is_seen(|| PROGRAM.set(Program::Refused));
    }

    #[test]
    fn another_process_that_spins_is_seen_on_its_processor() {
        is_seen(|| {});
    }

    #[test]
    fn another_process_that_spins_is_seen_among_several() {
        // Another process was looked at before each time.
        is_seen(|| SERVED.set(1));
    }
}
