//! Stops threads of a process, for as short a time as possible.
//!
//! Usually one thread is enough, the one that makes remote calls. If all must stand still, each is seized and interrupted, and
//! the thread list is read again until it holds nothing new, because a thread that was not stopped yet may have started
//! another. Threads are seized first, which stops none of them, then interrupted and waited for, so that the times to stop them do not
//! add up. A thread that gets a signal between its seizing and its interrupt stands from then on.
//!
//! While a stop lasts a signal may be pending for a thread. It is delivered at once: with an interrupt pending, the kernel
//! sets up the handler's frame and stops the thread again before the handler's first instruction, so lancet need not remember
//! a signal that its death could lose.
//!
//! If lancet dies, the kernel detaches every thread and lets it run.

mod before;
mod late;
mod state;
mod thread;

pub use crate::threads::thread_ids;
pub use late::{let_go, poll_stragglers};
pub use state::{is_running, place, thread_is_gone, thread_state};

use crate::asleep::Activity;
use crate::error::{Error, Result, Tried};
use crate::guest::missing_thread;
use crate::interrupted::{self, Waiting};
use crate::job_control::UnderWay;
use crate::priority::FirstInLine;
use crate::proc_file::{own_thread, shown_by};
use crate::ptrace::{self, Bounded};
use crate::status_file::StatusFile;
use before::Before;
use late::{Waited, wait_until_interrupted, was_straggler};
use nix::errno::Errno;
use state::{thread_count, thread_is_dead, wait_channel};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use thread::Thread;

/// The budget of a stop: how long a thread that does not stop is waited for while the others stand still. After that the stop
/// is given up and all threads go on.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// How often a thread is tried that cannot be seized although no process traces it, and the time between two tries.
const UNTRACED: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(1);

/// Options for every thread that is seized. `EXITKILL` is not set, because the death of lancet must not kill the guest.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD;

/// Threads of a process that stand still until this is dropped.
#[derive(Debug)]
pub struct Stop {
    pid: i32,
    threads: Vec<Thread>,
    since: Instant,
    /// What its threads did before ([`Stop::all_but`]).
    before: Before,
    /// Threads that slept with a timeout before the stop, by their ids.
    waiting: HashMap<i32, Waiting>,
    /// Where all threads stand still, the thread of ours that holds them.
    first_in_line: Option<FirstInLine>,
    /// While this lives, lancet itself is not stopped (`job_control`). It is dropped last, so that the threads go on first.
    _under_way: UnderWay,
}

/// How we trace the main thread of a process while no stop is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// It is not traced by us.
    None,
    /// It is traced and runs: a program that we started.
    Kept,
    /// It is traced and stands still, at its exec.
    Standing,
}

impl Stop {
    /// Stops one thread of `pid`. If it is `kept`, we trace it already (a program we started), and it is set going, not let
    /// go, at the end.
    pub fn one(pid: i32, tid: i32, kept: bool) -> Result<Self> {
        let stop = Self::as_it_is(pid, tid, kept)?;
        if stop.threads.iter().any(|thread| thread.grouped) {
            Err(Error::Stopped(pid))
        } else {
            Ok(stop)
        }
    }

    /// The same for a guest that may stand already (SIGSTOP) and then goes on standing afterwards: enough to look at it.
    pub fn as_it_is(pid: i32, tid: i32, kept: bool) -> Result<Self> {
        let mut stop = Self::none(pid, &HashSet::new())?;
        if !stop.seize(tid, kept)? {
            return Err(missing_thread(pid));
        }
        stop.wait_for_all(Instant::now() + PATIENCE)?;
        if stop.threads.is_empty() {
            Err(missing_thread(pid))
        } else {
            Ok(stop)
        }
    }

    /// Stops all threads of `pid` but those in `left`, which stay asleep. The clock of the stop begins when the first of them stands: a thread
    /// that waits for a processor is stopped only when it gets one, and nobody stands still for that.
    pub fn all_but(pid: i32, left: &HashSet<i32>) -> Result<Self> {
        let mut stop = Self::none(pid, left)?;
        stop.first_in_line = Some(FirstInLine::begin());
        stop.before = Before::of(pid, thread_ids(pid)?, left);
        let first = shown_by(pid);
        if !left.contains(&first) {
            if !stop.seize(first, false)? {
                return Err(missing_thread(pid));
            }
            stop.wait_for_all(Instant::now() + PATIENCE)?;
            if stop.threads.is_empty() {
                return Err(missing_thread(pid));
            }
        }
        stop.rest_but(left)?;
        stop.since = stop.before.first_stood(pid, stop.since);
        Ok(stop)
    }

    /// Returns what a thread of this stop did when it was about to be interrupted.
    pub fn activity(&self, tid: i32) -> Activity {
        self.before.activity(self.pid, tid, self.age())
    }

    /// Stops only the main thread, which we trace as `ties` says, or in the place of one that has ended the first that lives.
    pub fn main(pid: i32, ties: Ties) -> Result<Self> {
        if ties != Ties::Standing {
            let first = shown_by(pid);
            return Self::one(pid, first, first == pid && ties == Ties::Kept);
        }
        Ok(Stop {
            pid,
            threads: vec![Thread {
                tid: pid,
                stopped: true,
                grouped: false,
                kept: true,
                stays: true,
                interrupted: true,
            }],
            waiting: HashMap::new(),
            since: Instant::now(),
            before: Before::default(),
            first_in_line: None,
            _under_way: UnderWay::begin(),
        })
    }

    /// Returns the thread among them that makes remote calls: the main thread, or, if that has ended, the first that lives.
    pub fn first(&self) -> i32 {
        let threads = || self.threads();
        let main = threads().find(|tid| *tid == self.pid);
        main.or_else(|| threads().next()).unwrap_or(self.pid)
    }

    /// Stops all threads of `pid`, whose main thread we trace as `ties` says. Threads in an uninterruptible wait (state D: a
    /// disk that does not answer, the parent of a vfork) come first, while the others run: they may not stop for long, and no
    /// other thread must stand still for them.
    pub fn all(pid: i32, ties: Ties) -> Result<Self> {
        let mut stop = Self::none(pid, &HashSet::new())?;
        if ties == Ties::Standing {
            stop = Self::main(pid, ties)?;
        }
        for tid in thread_ids(pid)? {
            if thread_state(pid, tid) == Some('D') && !stop.has(tid) {
                stop.seize(tid, tid == pid && ties == Ties::Kept)?;
            }
        }
        stop.wait_for_all(Instant::now() + PATIENCE)?;
        // Seizing stops no thread, so it is done before any of them stands still for it.
        stop.seize_others(&HashSet::new(), ties == Ties::Kept)?;
        let first = shown_by(pid);
        stop.first_in_line = Some(FirstInLine::begin());
        stop.restart_clock();
        let Some(main) = stop.threads.iter_mut().find(|one| one.tid == first) else {
            return Err(missing_thread(pid));
        };
        if !main.stopped {
            main.interrupt(pid)?;
            stop.wait_for_all(Instant::now() + PATIENCE)?;
        }
        match stop.threads.iter().find(|thread| thread.tid == first) {
            None => return Err(missing_thread(pid)),
            Some(main) if main.grouped => return Err(Error::Stopped(pid)),
            Some(_) => {}
        }
        stop.rest()?;
        Ok(stop)
    }

    fn none(pid: i32, left: &HashSet<i32>) -> Result<Self> {
        poll_stragglers();
        Ok(Stop {
            pid,
            threads: Vec::new(),
            waiting: waiting(pid, left)?,
            since: Instant::now(),
            before: Before::default(),
            first_in_line: None,
            _under_way: UnderWay::begin(),
        })
    }

    fn has(&self, tid: i32) -> bool {
        self.threads.iter().any(|thread| thread.tid == tid)
    }

    /// Stops one more thread, if it does not stand already.
    pub fn also(&mut self, tid: i32) -> Result<()> {
        if self.has(tid) {
            return Ok(());
        }
        if self.seize(tid, false)? {
            self.wait_for_all(Instant::now() + PATIENCE)
        } else {
            Err(missing_thread(self.pid))
        }
    }

    /// Stops all other threads too.
    pub fn rest(&mut self) -> Result<()> {
        self.rest_but(&HashSet::new())
    }

    fn rest_but(&mut self, left: &HashSet<i32>) -> Result<()> {
        self.interrupt_seized()?;
        self.wait_for_all(Instant::now() + PATIENCE)?;
        let deadline = Instant::now() + PATIENCE;
        while thread_count(self.pid) != Some(self.threads.len() + left.len()) {
            if !self.seize_others(left, false)? {
                break;
            }
            self.interrupt_seized()?;
            self.wait_for_all(deadline)?;
        }
        Ok(())
    }

    /// Seizes all threads but those that are seized and those in `left`; `kept`: the main thread is traced by us. Returns whether there
    /// was one.
    fn seize_others(&mut self, left: &HashSet<i32>, kept: bool) -> Result<bool> {
        let known: HashSet<i32> = self.threads().collect();
        let mut found = false;
        for tid in thread_ids(self.pid)? {
            if !left.contains(&tid) && !known.contains(&tid) {
                found |= self.take(tid, kept && tid == self.pid)?;
            }
        }
        Ok(found)
    }

    /// Interrupts all threads that are seized and run.
    fn interrupt_seized(&mut self) -> Result<()> {
        let pid = self.pid;
        let mut running = self.threads.iter_mut().filter(|thread| !thread.interrupted);
        running.try_for_each(|thread| thread.interrupt(pid))
    }

    /// Seizes and interrupts a thread. Returns false if it has ended.
    fn seize(&mut self, tid: i32, kept: bool) -> Result<bool> {
        if !self.take(tid, kept)? {
            return Ok(false);
        }
        let pid = self.pid;
        let taken = self.threads.last_mut();
        taken.map_or(Ok(()), |thread| thread.interrupt(pid))?;
        Ok(true)
    }

    /// Seizes a thread, which goes on. Returns false if it has ended. One that this thread of ours traces already (it was seized for its
    /// exec) is kept: it goes on being traced afterwards.
    fn take(&mut self, tid: i32, mut kept: bool) -> Result<bool> {
        if kept && shown_by(self.pid) != self.pid {
            // It is the zombie leader of living threads, which seizing refuses.
            return Ok(false);
        }
        if !kept && !was_straggler(tid) {
            match ptrace::seize(tid, OPTIONS) {
                Ok(()) => {}
                // It has ended since the list was read, or is the zombie leader of living threads.
                Err(Errno::ESRCH) => return Ok(false),
                Err(Errno::EPERM) if thread_is_dead(self.pid, tid) => return Ok(false),
                Err(Errno::EPERM) => kept = self.seize_refused(tid)?,
                Err(errno) => {
                    let what = format!("seizing thread {tid}");
                    return Err(ptrace::explain(self.pid, &what, errno));
                }
            }
        }
        if self.threads.is_empty() {
            // It has run until now, because seizing does not stop a thread.
            self.since = Instant::now();
        }
        self.threads.push(Thread {
            tid,
            stopped: false,
            grouped: false,
            kept,
            stays: false,
            interrupted: false,
        });
        Ok(true)
    }

    /// Finds out why a thread may not be seized: another process traces it, or we may not. Another lancet's stop may end
    /// before its tracer is read, and its next stop may begin before the thread is seized after all. Returns whether it is this thread of
    /// ours that traces it: only who has seized a thread may stop it.
    fn seize_refused(&self, tid: i32) -> Result<bool> {
        for _ in 0..UNTRACED {
            let tracer = tracer_of(tid);
            if tracer != 0 && Some(tracer) == own_thread() {
                return Ok(true);
            }
            if tracer != 0 {
                return Err(crate::guest::traced(self.pid, tracer));
            }
            if ptrace::seize(tid, OPTIONS).is_ok() {
                return Ok(false);
            }
            std::thread::sleep(BETWEEN);
        }
        Err(crate::guest::why_not_allowed(self.pid, Tried::Seize))
    }

    /// Waits until every thread stands still. Threads that end meanwhile are dropped from the list.
    fn wait_for_all(&mut self, deadline: Instant) -> Result<()> {
        // One timer bounds the waits for all of them.
        let _waits = Bounded::begin();
        // The thread that was interrupted last comes first: when it stands, most of the others do, so that hardly any is waited for.
        for at in (0..self.threads.len()).rev() {
            let tid = self.threads[at].tid;
            if self.threads[at].stopped || !self.threads[at].interrupted {
                continue;
            }
            let mut handed_on = Vec::new();
            let waited = wait_until_interrupted(tid, deadline, &mut handed_on);
            if self.threads[at].kept {
                let handed_on = handed_on.into_iter().map(|signal| (tid, signal));
                HANDED_ON.with_borrow_mut(|all| all.extend(handed_on));
            }
            match waited {
                Waited::Stopped(signal) => {
                    self.threads[at].stopped = true;
                    self.threads[at].grouped = signal != libc::SIGTRAP;
                    match self.waiting.get_mut(&tid) {
                        Some(slept) => slept.confirm(),
                        None => interrupted::repeat_call(self.pid, tid),
                    }
                }
                Waited::Gone => {}
                Waited::At(event) => {
                    // It stands at an event, which its tracer must handle.
                    ptrace::put_back(tid, event);
                    self.threads.remove(at);
                    return Err(Error::AtEvent { tid });
                }
                Waited::Late => {
                    return Err(Error::WouldNotStop {
                        pid: self.pid,
                        tid,
                        place: wait_channel(self.pid, tid),
                    });
                }
            }
        }
        self.threads
            .retain(|thread| thread.stopped || !thread.interrupted);
        Ok(())
    }

    /// Returns the ids of the threads that stand still.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// Returns how long the process has been standing still.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Restarts the clock of the stop, because the thread has run in between.
    pub fn restart_clock(&mut self) {
        self.since = Instant::now();
    }

    /// Lets the threads go on, and returns how long they stood still.
    pub fn release(mut self) -> Duration {
        if self.threads.is_empty() {
            return Duration::ZERO;
        }
        self.let_go();
        // The time is taken before lancet stops itself, if a signal asked for that.
        self.since.elapsed()
    }

    /// Goes on tracing the threads that stand still: they run, stop at the start and the end of each system call from now on,
    /// and report the events in `options` (`PTRACE_O_*`). Returns their ids.
    pub fn trace_on(mut self, options: i32) -> Vec<i32> {
        self.shorten_waits();
        let threads = self.threads.drain(..).map(|thread| {
            // An error means that the thread is gone; its end is reported next.
            let _ = ptrace::set_options(thread.tid, options);
            let _ = if thread.grouped {
                ptrace::listen(thread.tid)
            } else {
                ptrace::resume_to_syscall(thread.tid, 0)
            };
            thread.tid
        });
        threads.collect()
    }

    /// Shortens the timeouts of calls that will be made again by the time that they have slept.
    fn shorten_waits(&self) {
        let stands = |thread: &&Thread| thread.stopped && !thread.stays;
        for thread in self.threads.iter().filter(stands) {
            if let Some(waiting) = self.waiting.get(&thread.tid) {
                waiting.shorten();
            }
        }
    }

    fn let_go(&mut self) {
        self.shorten_waits();
        // Threads that stand still come first, because they wait for us.
        self.threads.sort_by_key(|thread| !thread.stopped);
        for thread in self.threads.drain(..) {
            thread.let_go();
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.let_go();
    }
}

thread_local! {
    /// Signals that came for a thread of a program we started while it was being stopped. They are not reported elsewhere.
    static HANDED_ON: RefCell<Vec<(i32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the signals that thread `tid` got on its way to a stop since the last call.
pub fn handed_on(tid: i32) -> Vec<i32> {
    HANDED_ON.with_borrow_mut(|all| {
        let own = all.extract_if(.., |(of, _)| *of == tid);
        own.map(|(_, signal)| signal).collect()
    })
}

/// Returns the threads of a process that sleep with a timeout in a call that a stop would interrupt, except those in `left`.
fn waiting(pid: i32, left: &HashSet<i32>) -> Result<HashMap<i32, Waiting>> {
    let threads = thread_ids(pid)?;
    let stopped = threads.into_iter().filter(|tid| !left.contains(tid));
    Ok(stopped
        .filter_map(|tid| Some((tid, Waiting::of(pid, tid)?)))
        .collect())
}

/// Returns the process that traces a thread; 0 = none.
fn tracer_of(tid: i32) -> i32 {
    let status = StatusFile::of_first_thread(tid).unwrap_or_default();
    status.number("TracerPid").unwrap_or(0)
}
