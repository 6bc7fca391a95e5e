//! Looks at threads that run without a stop: each is copied on its processor, within an interrupt (`tracepoint::Running`), where the kernel
//! lets lancet do that. Used by `open`.
//!
//! The interrupt can copy only what it was told to copy before it. That is the stack, and the pages that were needed of this process lately.
//! Whether they hold all of the frames is found out afterwards (`whole`). If not, the copy is dropped, and the thread that then has the
//! processor is copied, with those pages too. So what is shown of a thread that runs has all been copied between two of its instructions. What
//! else is read of it, the names and lines of its code, and which locks of its VM it holds, is read some moments later.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use process::asleep::{Asleep, thread_area};
use process::clock::thread_time;
use process::pagemap::{Pagemap, stack_around};
use process::pages::Pages;
use process::processors::are_several;
use process::room::Room;
use process::snapshot::{Activity, Copies, Overlay, Snapshot, Thread, UnwindContext};
use process::stop::thread_state;
use tracepoint::{Asked, PAGE, Running};

use super::activity::{self, Sleepers};
use super::between_looks::{Again, Kept};
use super::earlier::Earlier;
use super::look::Look;
use super::open::{Live, Reading, Wanted};
use super::scripts::{self, Through, VmThread};
use super::stack::{self, Process, Stack};
use super::state::State;

/// How often a processor is looked at again for a thread whose frames were not all copied, and how long threads are kept there for that.
const TRIES: u32 = 4;
const LONGEST: Duration = Duration::from_micros(200);
/// Of more processors, and where several processes are looked at, none is interrupted for a process of which no thread wants one.
const FEW: usize = 8;
/// The threads that sleep are asked whether they have slept on at most for one part in so many of the time.
const SHARE: u32 = 20;

/// Why looks are made by stops.
const REPLACED: &str =
    "without a lock of the VM what leads to frames is replaced while threads run";
const SINGLE: &str = "lancet may use a single processor";
const HIDDEN: &str = "a thread that sleeps cannot be read otherwise: it has no list of robust mutexes, as glibc makes one, or the kernel no schedstat";

/// What lancet runs on processors, made when it is first wanted; it serves all processes.
enum Program {
    Unmade,
    Made(Running),
    /// Why the kernel does not allow it, or cannot do it.
    Refused(String),
}

/// Whether lancet may use several processors; asked once, because it goes away from those that others want (`Apart`).
static SEVERAL: OnceLock<bool> = OnceLock::new();

thread_local! {
    static PROGRAM: RefCell<Program> = const { RefCell::new(Program::Unmade) };
    /// The process for which it was run last.
    static SERVED: Cell<i32> = const { Cell::new(0) };
}

/// The threads that had a processor in one look.
#[derive(Default)]
struct Beside {
    threads: Vec<(Thread, Copies)>,
    /// How long they were kept from going on.
    took: Duration,
    /// How often one was copied once more.
    again: u64,
    /// Whether files were loaded since the look before, so that they have other numbers.
    is_elsewhere: bool,
}

/// What was found on a processor.
enum Found {
    Nobody,
    Whole(Thread, Copies),
    /// Not all of its frames were copied.
    InPart,
}

impl Live {
    /// Looks at the threads that have a processor now, and at those that sleep. `None`: that cannot be done, and threads must be stopped. What
    /// is known of the look `before` is used up only where it could be tried.
    pub(super) fn look_on_processors(
        &mut self,
        wanted: Wanted,
        before: &mut Option<Again>,
    ) -> Option<(Look, Sleepers)> {
        // Where there is no processor but the one that lancet has, nobody else is on it.
        if !*SEVERAL.get_or_init(are_several) {
            self.on_processors.stop_once(SINGLE);
            return None;
        }
        if self.vms.iter().any(|vm| vm.needs_stop()) {
            self.on_processors.stop_once(REPLACED);
            return None;
        }
        if self.on_processors.goes_by_stops() {
            return None;
        }
        let refused = PROGRAM.with_borrow_mut(|program| made(program, self.pid).err());
        if let Some(why) = refused {
            self.on_processors.stop_once(&why);
            return None;
        }
        // Who has slept on until now sleeps at the moment of the look.
        let kept = before.take().map(|before| self.kept_beside(before));
        let kept = kept.unwrap_or_default();
        let earlier = Earlier::of(self.pid, &kept.sleepers);
        let beside = self.copy_on_processors(&earlier)?;
        let kept = match beside.is_elsewhere {
            true => Kept::default(),
            false => kept,
        };
        self.look_beside(wanted, kept, &beside, &earlier)
    }

    fn copy_on_processors(&mut self, earlier: &Earlier) -> Option<Beside> {
        let copied = PROGRAM.with_borrow_mut(|program| {
            let Program::Made(running) = program else {
                return Ok(None);
            };
            let before = SERVED.replace(self.pid);
            let are_many = running.processors() > FEW || before != self.pid && before != 0;
            if are_many && !earlier.may_run(self.pid) {
                return Ok(Some(Beside::default()));
            }
            self.copy_each(running).map_err(|error| {
                let why = format!("the kernel cannot interrupt processors by BPF: {error}");
                *program = Program::Refused(why.clone());
                why
            })
        });
        match copied {
            Ok(copied) => {
                self.on_processors.end_look(copied.is_some());
                copied
            }
            Err(why) => {
                self.on_processors.stop_once(&why);
                None
            }
        }
    }

    /// Looks at each processor; `None` where the frames of a thread could not all be copied.
    fn copy_each(&mut self, running: &mut Running) -> std::io::Result<Option<Beside>> {
        let mut beside = Beside::default();
        for processor in 0..running.processors() {
            let (mut tries, before) = (0, beside.took);
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
                    Found::InPart if tries == TRIES || beside.took - before > LONGEST => {
                        return Ok(None);
                    }
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
        let (at, stack) = seen.stack();
        let (deep, stack_end) = (stack.len() / PAGE, at + stack.len() as u64);
        let mut copies = self.on_processors.copies(&seen, &pages);
        if self.maps.find(sp).is_none() || self.maps.find(ip).is_none() {
            beside.is_elsewhere |= self.refresh();
        }
        let Some(mut thread) = self.thread(tid, task, sp) else {
            // It has ended meanwhile, or cannot be read so.
            return Ok(match thread_state(self.pid, tid) {
                None | Some('Z' | 'X') => Found::Nobody,
                Some(_) => Found::InPart,
            });
        };
        let thread_area = thread.context.thread_area;
        thread.context = UnwindContext {
            ip,
            sp,
            bp,
            thread_area,
        };
        // In a thread of glibc's its own record lies at the outer end, and above it what the kernel may have merged with the stack.
        let own = Some(thread_area).filter(|area| (sp..thread.mapping.end).contains(area));
        let used = own.unwrap_or(thread.mapping.end).saturating_sub(sp) as usize / PAGE + 2;
        let is_cut = self.on_processors.is_cut(used, deep);
        // A reader remembers what it does not find, so it is not asked about a part.
        let is_whole = !is_cut && self.is_whole(&thread, stack_end, &mut copies);
        Ok(match is_whole {
            true => Found::Whole(thread, copies),
            false => Found::InPart,
        })
    }

    /// Returns what is known of a thread that had a processor with this stack pointer; `None` if it is gone, or its fs base or stack is not
    /// found.
    fn thread(&mut self, tid: i32, task: u64, sp: u64) -> Option<Thread> {
        let known = self.on_processors.threads.get(&(tid, task));
        if let Some(known) = known.filter(|known| known.mapping.contains(&sp)) {
            return Some(known.clone());
        }
        let thread_area = match known {
            Some(known) => known.context.thread_area,
            None => thread_area(tid)?,
        };
        let pagemap = Pagemap::open(self.pid).ok();
        let mapping = stack_around(pagemap.as_ref(), &self.maps, sp);
        if mapping.is_empty() {
            return None;
        }
        let context = UnwindContext {
            thread_area,
            ..UnwindContext::default()
        };
        let thread = Thread::on_processor(self.pid, tid, context, mapping);
        let threads = &mut self.on_processors.threads;
        threads.insert((tid, task), thread.clone());
        Some(thread)
    }

    /// Returns the threads that sleep on. Whether they do is asked more seldom the longer it takes to ask.
    fn kept_beside(&mut self, before: Again) -> Kept {
        let asked = self.on_processors.asked;
        let asks = asked.is_none_or(|(last, took)| last.elapsed() >= took * SHARE);
        // What other programs take of the processor meanwhile is no cost of asking: on a busy machine it would make what is told of short
        // waits too old.
        let began = thread_time();
        let kept = before.kept_beside(asks);
        if asks {
            self.on_processors.asked = Some((Instant::now(), thread_time().saturating_sub(began)));
        }
        kept
    }

    /// Reads the threads that were copied on their processors, and those that sleep, which are copied now. `None` where one that sleeps can
    /// be read only by a stop.
    fn look_beside(
        &mut self,
        wanted: Wanted,
        kept: Kept,
        beside: &Beside,
        earlier: &Earlier,
    ) -> Option<(Look, Sleepers)> {
        let threads = beside.threads.iter();
        // Soon after the interrupts, because it may change.
        let known: Vec<Option<VmThread>> = threads
            .map(|(thread, copies)| self.known_by_vm(thread, copies))
            .collect();
        let coroutines = match kept.stacks.is_empty() {
            true => scripts::threads_apart(&self.vms, &self.memory),
            false => Vec::new(),
        };
        let mut sleepers = Sleepers::of(self.pid, &self.memory, kept.sleepers);
        if sleepers.is_any_hidden(self.pid) {
            self.on_processors.go_by_stops(HIDDEN);
            return None;
        }
        let snapshot = self.copy_sleeping(&sleepers.beside(&kept.asleep));
        sleepers.ask_again(self.pid, &self.memory, &snapshot.threads);
        let tids = |stacks: &[(Stack, Room)]| -> HashSet<i32> {
            stacks.iter().map(|(stack, _)| stack.thread.tid).collect()
        };
        let ran: HashSet<i32> = beside.threads.iter().map(|(one, _)| one.tid).collect();
        let read = snapshot.threads.iter().map(|thread| thread.tid);
        let read: HashSet<i32> = read.chain(ran.iter().copied()).collect();
        let mut kept_stacks = kept.stacks;
        kept_stacks.retain(|(stack, _)| !read.contains(&stack.thread.tid));
        let kept = tids(&kept_stacks);
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
        let running = beside.threads.iter().zip(known);
        let running = running.map(|((thread, copies), known)| {
            let stack = self.read_running(thread, copies, known);
            (stack, Room::default())
        });
        let mut all: Vec<(Stack, Room)> = both.chain(running).collect();
        let queued = sleepers.queued(&ran, earlier);
        let mut told = tids(&all);
        told.extend(&queued);
        let slept = earlier.slept_beside(&told).into_iter();
        all.extend(slept.map(|tid| (self.slept(tid), Room::default())));
        all.sort_by_key(|(stack, _)| {
            let parked = stack.parked.is_some();
            (parked, !parked && !stack.thread.main)
        });
        let (mut stacks, rooms): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        if !snapshot.threads.is_empty() && !ran.is_empty() {
            activity::tell_turns(&mut stacks);
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
            kept,
            queued,
            again: beside.again,
            why_stopped: None,
        };
        Some((look, sleepers))
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
        stack.state = Some(State {
            vm,
            ..State::default()
        });
        stack
    }

    /// A thread that slept at the moment of the look, and woke before it was read.
    fn slept(&self, tid: i32) -> Stack {
        let context = UnwindContext::default();
        let mut thread = Thread::on_processor(self.pid, tid, context, 0..0);
        thread.activity = Activity::Slept;
        Stack::empty(&thread)
    }
}

/// Returns what is run on processors, if it may be, for a process; or why not.
fn made(program: &mut Program, pid: i32) -> std::result::Result<&mut Running, String> {
    if let Program::Unmade = program {
        *program = match Running::begin() {
            Ok(running) => Program::Made(running),
            Err(error) => Program::Refused(error.to_string()),
        };
    }
    match program {
        Program::Made(running) => match running.require(pid) {
            Ok(()) => Ok(running),
            Err(error) => Err(error.to_string()),
        },
        Program::Refused(why) => Err(why.clone()),
        Program::Unmade => Err(String::new()),
    }
}

#[cfg(test)]
mod tests;
