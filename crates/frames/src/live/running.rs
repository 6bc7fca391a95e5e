//! Looks at threads that run without a stop: each is copied on its processor, within an interrupt (`tracepoint::Running`), where the kernel
//! lets lancet do that. Used by `open`.
//!
//! The interrupt can copy only what it was told to copy before it. That is the stack, and the pages that were needed of this process lately.
//! Whether they hold all of the frames is found out afterwards (`whole`). If not, the copy is dropped, and the thread that then has the
//! processor is copied, with those pages too. So what is shown of a thread that runs has all been copied between two of its instructions. What
//! else is read of it, the names and lines of its code, and which locks of its VM it holds, is read some moments later.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use process::asleep::thread_area;
use process::clock::thread_time;
use process::pagemap::{Pagemap, stack_around};
use process::processors::are_several;
use process::snapshot::{Copies, Thread, UnwindContext};
use process::stop::thread_state;
use tracepoint::{Asked, PAGE, Running};

use super::beside::Moment;
use super::between_looks::{Again, Kept};
use super::earlier::Earlier;
use super::look::Look;
use super::marks::Marks;
use super::open::{Live, Wanted};
use super::sleepers::{Shown, Sleepers};

/// How often a processor is looked at again for a thread whose frames were not all copied, and how long threads are kept there for that.
const TRIES: u32 = 4;
const LONGEST: Duration = Duration::from_micros(200);
/// Of more processors, and where several processes are looked at, none is interrupted for a process of which no thread wants one.
const FEW: usize = 8;

/// Why looks are made by stops.
const REPLACED: &str =
    "without a lock of the VM what leads to frames is replaced while threads run";
const SINGLE: &str = "lancet may use a single processor";

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
pub(super) struct Beside {
    pub(super) threads: Vec<(Thread, Copies)>,
    /// How long they were kept from going on.
    pub(super) took: Duration,
    /// How often one was copied once more.
    pub(super) again: u64,
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
        if !self.goes_on_processors() {
            return None;
        }
        let asleep = before.as_ref().map_or(0, Again::asleep);
        let marks = self.marks(asleep);
        let shown = match &marks {
            Some(marks) => Shown::Marked(marks),
            None if self.on_processors.asks() => Shown::Asked,
            None => Shown::Before,
        };
        // What other programs take of the processor meanwhile is no cost of asking: on a busy machine it would make what is told of short
        // waits too old.
        let began = thread_time();
        let kept = before.take().map(|before| before.kept_beside(shown));
        let mut kept = kept.unwrap_or_default();
        if matches!(shown, Shown::Asked) {
            let took = thread_time().saturating_sub(began);
            self.on_processors.asked = Some((Instant::now(), took));
        }
        let list = &mut self.on_processors.list;
        let mut earlier = Earlier::of(self.pid, list, &kept.sleepers);
        let beside = self.copy_on_processors(&earlier)?;
        if beside.is_elsewhere {
            // All are read again, with the numbers that files have now.
            earlier.add_asleep(kept.sleepers.tids());
            kept = Kept::default();
        }
        let moment = Moment {
            earlier: &earlier,
            beside: &beside,
            shown,
        };
        self.look_beside(wanted, kept, &moment)
    }

    /// Whether threads can be looked at on their processors; says why not where they must be stopped.
    fn goes_on_processors(&mut self) -> bool {
        // Where there is no processor but the one that lancet has, nobody else is on it.
        if !*SEVERAL.get_or_init(are_several) {
            self.on_processors.stop_once(SINGLE);
            return false;
        }
        if self.vms.iter().any(|vm| vm.needs_stop()) {
            self.on_processors.stop_once(REPLACED);
            return false;
        }
        if self.on_processors.goes_by_stops() {
            return false;
        }
        let refused = PROGRAM.with_borrow_mut(|program| made(program, self.pid).err());
        if let Some(why) = &refused {
            self.on_processors.stop_once(why);
        }
        refused.is_none()
    }

    /// Returns the marks of threads, if they show now who has slept since the look before.
    fn marks(&mut self, asleep: usize) -> Option<Rc<Marks>> {
        let on = &mut self.on_processors;
        if on.marks.as_ref().is_some_and(|marks| !marks.stay(asleep)) {
            on.marks = None;
        }
        if let Some(marks) = &on.marks {
            return marks.are_all().then(|| marks.clone());
        }
        if Marks::are_worth_it(asleep) && !on.has_no_marks {
            on.marks = Marks::begin(self.pid).map(Rc::new);
            on.has_no_marks = on.marks.is_none();
        }
        // Each is asked once more: one may have run since it was read and before there were marks.
        None
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
