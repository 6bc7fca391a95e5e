//! Stops threads of a process, for as short a time as possible. Used by `snapshot`, and by most crates above.
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
mod taking;
mod thread;
mod waiting;

pub(crate) use crate::ptrace::PATIENCE;
pub use crate::threads::thread_ids;
#[cfg(test)]
pub(crate) use late::is_late;
pub use late::{leave_alone, let_go, poll_stragglers};
pub use state::{any_runs, is_running, place, thread_is_gone, thread_state};
pub use waiting::handed_on;

use crate::asleep::Activity;
use crate::error::{Error, Result};
use crate::guest::missing_thread;
use crate::interrupted::{Look, Waiting};
use crate::job_control::UnderWay;
use crate::priority::FirstInLine;
use crate::proc_file::shown_by;
use crate::processors;
use crate::ptrace::{self, Bounded};
use before::Before;
use state::thread_count;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use thread::Thread;

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
    /// For how long its seizes wait for execs yet, all together.
    execs: Duration,
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
            execs: PATIENCE,
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
            execs: PATIENCE,
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
        let mut known: HashSet<i32> = self.threads().collect();
        // One timer bounds the waits for all of them.
        let _waits = Bounded::begin();
        let mut found = false;
        for tid in thread_ids(self.pid)? {
            // The list names an id twice if an exec gives it to another thread meanwhile.
            if !left.contains(&tid) && known.insert(tid) {
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
        let standing = self.threads.iter().take_while(|thread| thread.stopped);
        let running = self.threads.split_off(standing.count());
        for thread in self.threads.drain(..) {
            thread.let_go(self.pid);
        }
        if !running.is_empty() {
            // An exec of one of them may wait until we have heard of the ends of others. What stands at its end is told to its tracer.
            let _ = ptrace::hear_ends(self.pid);
        }
        for thread in running {
            thread.let_go(self.pid);
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Returns the threads of a process that sleep with a timeout in a call that a stop would interrupt, except those in `left`.
fn waiting(pid: i32, left: &HashSet<i32>) -> Result<HashMap<i32, Waiting>> {
    let threads = thread_ids(pid)?;
    let (mut found, mut asks) = (HashMap::new(), Vec::new());
    for tid in threads.into_iter().filter(|tid| !left.contains(tid)) {
        match Waiting::look(pid, tid) {
            Look::Nothing => {}
            Look::Known(waiting) => drop(found.insert(tid, waiting)),
            Look::Asks(..) | Look::Unread => asks.push(tid),
        }
    }
    // To others lancet must not go: it would take the processor from a thread that runs, at moments of that thread's choosing. What was seen of
    // these is seen anew, because all that is found of a thread must belong to one moment.
    let of = |tid| Some((tid, Waiting::of(pid, tid)?));
    found.extend(processors::by_processor(pid, asks, of));
    Ok(found)
}
