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

mod late;
mod state;

pub use crate::threads::{living_thread, thread_ids};
pub use late::{let_go, poll_stragglers};
pub use state::{is_running, place, thread_is_gone, thread_state};

use crate::error::{Error, Result, Tried};
use crate::guest::missing_thread;
use crate::interrupted::{self, Waiting};
use crate::job_control::UnderWay;
use crate::ptrace;
use late::{Waited, wait_until_interrupted, was_straggler};
use nix::errno::Errno;
use state::{thread_count, thread_is_dead, wait_channel};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

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
    /// Threads that slept with a timeout before the stop, by their ids.
    waiting: HashMap<i32, Waiting>,
    /// While this lives, lancet itself is not stopped (`job_control`). It is dropped last, so that the threads go on first.
    _under_way: UnderWay,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    stopped: bool,
    /// Whether it is in a group stop, because of SIGSTOP or a similar signal.
    grouped: bool,
    /// Whether we traced it before this stop, and go on tracing it afterwards.
    kept: bool,
    /// Whether it stood still before this stop, and is left standing afterwards.
    stays: bool,
    /// Whether it was asked to stop; until then it is seized and runs.
    interrupted: bool,
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

    /// Stops all threads of `pid` but those in `left`, which stay asleep.
    pub fn all_but(pid: i32, left: &HashSet<i32>) -> Result<Self> {
        let mut stop = Self::none(pid, left)?;
        if !left.contains(&pid) {
            if !stop.seize(pid, false)? {
                return Err(missing_thread(pid));
            }
            stop.wait_for_all(Instant::now() + PATIENCE)?;
            if stop.threads.is_empty() {
                return Err(missing_thread(pid));
            }
        }
        stop.rest_but(left)?;
        Ok(stop)
    }

    /// Stops the main thread only, which we trace as `ties` says.
    pub fn main(pid: i32, ties: Ties) -> Result<Self> {
        if ties != Ties::Standing {
            return Self::one(pid, pid, ties == Ties::Kept);
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
            _under_way: UnderWay::begin(),
        })
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
        stop.restart_clock();
        let Some(main) = stop.threads.iter_mut().find(|thread| thread.tid == pid) else {
            return Err(missing_thread(pid));
        };
        if !main.stopped {
            main.interrupt(pid)?;
            stop.wait_for_all(Instant::now() + PATIENCE)?;
        }
        match stop.threads.iter().find(|thread| thread.tid == pid) {
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

    /// Seizes a thread, which goes on. Returns false if it has ended.
    fn take(&mut self, tid: i32, kept: bool) -> Result<bool> {
        if !kept && !was_straggler(tid) {
            match ptrace::seize(tid, OPTIONS) {
                Ok(()) => {}
                // It has ended since the list was read, or is the zombie leader of living threads.
                Err(Errno::ESRCH) => return Ok(false),
                Err(Errno::EPERM) if thread_is_dead(self.pid, tid) => return Ok(false),
                Err(Errno::EPERM) => self.seize_refused(tid)?,
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
    /// before its tracer is read, and its next stop may begin before the thread is seized after all.
    fn seize_refused(&self, tid: i32) -> Result<()> {
        for _ in 0..UNTRACED {
            let tracer = tracer_of(tid);
            if tracer != 0 {
                return Err(crate::guest::traced(self.pid, tracer));
            }
            if ptrace::seize(tid, OPTIONS).is_ok() {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        Err(crate::guest::why_not_allowed(self.pid, Tried::Seize))
    }

    /// Waits until every thread stands still. Threads that end meanwhile are dropped from the list.
    fn wait_for_all(&mut self, deadline: Instant) -> Result<()> {
        for at in 0..self.threads.len() {
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

impl Thread {
    /// Asks it to stop. That it has ended is found by those who wait for it.
    fn interrupt(&mut self, pid: i32) -> Result<()> {
        self.interrupted = true;
        match ptrace::interrupt(self.tid) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(ptrace::explain(pid, "interrupting a thread", errno)),
        }
    }

    /// Sets the thread going, or adds it to the stragglers: a thread that does not stand still cannot be let go, and one that
    /// stops later must not stand for ever.
    fn let_go(self) {
        if self.stays {
            return;
        }
        // A group stop goes on: by itself after a detach, otherwise by `listen`.
        let freed = |thread: &Thread| {
            if !thread.kept {
                ptrace::detach(thread.tid, 0)
            } else if in_group_stop(thread.tid) {
                ptrace::listen(thread.tid)
            } else {
                ptrace::resume(thread.tid, 0)
            }
        };
        if self.stopped && freed(&self).is_ok() {
            return;
        }
        // It has ended, or it runs.
        if ptrace::interrupt(self.tid).is_err() {
            // Its end must be heard: until then an exec of another thread waits for it, and a parent for the process.
            return match self.kept {
                true => (),
                false => late::hear_end(self.tid),
            };
        }
        if !self.kept && thread_state(self.tid, self.tid) == Some('D') {
            // It stops when its wait in the kernel is over, before it runs any of its program's code.
            return late::is_late(self.tid);
        }
        match wait_until_interrupted(self.tid, Instant::now() + PATIENCE, &mut Vec::new()) {
            Waited::Stopped(_) => {
                interrupted::repeat_call(self.tid, self.tid);
                let _ = freed(&self);
            }
            Waited::At(event) if self.kept => ptrace::put_back(self.tid, event),
            Waited::Gone | Waited::At(_) => {}
            Waited::Late if self.kept => {}
            Waited::Late => late::is_late(self.tid),
        }
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

/// Whether a thread that stands still is in a group stop. It may have entered it since it was first seen standing, because a
/// remote call goes on through a group stop.
fn in_group_stop(tid: i32) -> bool {
    let stands = ptrace::signal_information(tid);
    // The last stop's signal and event, in the form of wait(2) (`ptrace_do_notify`, kernel/signal.c).
    stands.is_ok_and(|stands| {
        stands.si_code >> 8 == libc::PTRACE_EVENT_STOP && stands.si_code & 0xff != libc::SIGTRAP
    })
}

/// Returns the process that traces a thread; 0 = none.
fn tracer_of(tid: i32) -> i32 {
    crate::guest::Status::read(tid).map_or(0, |status| status.tracer)
}
