//! Stopping threads of a process, for as short a time as possible.
//!
//! Usually one thread is enough, the one that will be borrowed. Where all must stand still, each is
//! seized and interrupted, and the thread list is read again until it holds nothing new, because a
//! thread that was not stopped yet may have started another. Threads are seized first and waited for
//! afterwards, so that the time to stop them does not add up.
//!
//! While a stop lasts a signal may be waiting for a thread. It is handed on at once: with an
//! interrupt pending the kernel sets up the handler's frame and stops the thread again before its
//! first instruction, so nothing of ours has to be remembered that our death could lose.
//!
//! If we die the kernel detaches every thread and lets it run.

mod late;

pub use late::{let_go, poll_stragglers};

use crate::error::{Error, Result};
use crate::guest::missing_thread;
use crate::interrupted::{self, Waiting};
use crate::job_control::UnderWay;
use crate::proc_file;
use crate::ptrace;
use late::{Waited, wait_until_interrupted, was_straggler};
use nix::errno::Errno;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The budget of a stop: how long a thread is waited for that does not stop, while the others stand still. After that
/// the stop is given up and all go on.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// How often a thread is tried that cannot be seized although nobody traces it, and the time between two tries.
const UNTRACED: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(1);

/// Options for every thread we seize. No `EXITKILL`: our death must not be the guest's.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD;

/// Threads of a process that stand still until this is dropped.
#[derive(Debug)]
pub struct Stop {
    pid: i32,
    threads: Vec<Thread>,
    since: Instant,
    /// Threads that slept with a timeout before the stop, by their ids.
    waiting: HashMap<i32, Waiting>,
    /// While this lives, lancet itself is not stopped (`job_control`). Dropped last, so that the threads go on first.
    _under_way: UnderWay,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    stopped: bool,
    /// Whether it is in a group stop: somebody sent it SIGSTOP or the like.
    grouped: bool,
    /// Whether it was traced by us before this stop, and stays so after it.
    kept: bool,
    /// Whether it stood still before this stop, and is left standing after it.
    stays: bool,
}

/// How the main thread of a process is traced by us while no stop is under way.
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
    /// Stops one thread of `pid`. If it is `kept` it is already ours (a program we started) and is set
    /// going, not let go, at the end.
    pub fn one(pid: i32, tid: i32, kept: bool) -> Result<Self> {
        let stop = Self::as_it_is(pid, tid, kept)?;
        if stop.threads.iter().any(|thread| thread.grouped) {
            Err(Error::Stopped(pid))
        } else {
            Ok(stop)
        }
    }

    /// The same of a guest that may stand already (SIGSTOP) and then stands on afterwards: enough to look at it.
    pub fn as_it_is(pid: i32, tid: i32, kept: bool) -> Result<Self> {
        let mut stop = Self::none(pid, &HashSet::new());
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

    /// Stops all threads of `pid` but those that are `left` to sleep.
    pub fn all_but(pid: i32, left: &HashSet<i32>) -> Result<Self> {
        let mut stop = Self::none(pid, left);
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

    /// The same for a main thread that is tied to us.
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
            }],
            waiting: HashMap::new(),
            since: Instant::now(),
            _under_way: UnderWay::begin(),
        })
    }

    /// Stops all threads of `pid`, whose main thread is tied to us so. Threads in an uninterruptible wait (state D: a disk
    /// that does not answer, the parent of a vfork) come first, while the others run: they may not stop for long, and
    /// then nobody else must stand still for them.
    pub fn all(pid: i32, ties: Ties) -> Result<Self> {
        let mut stop = Self::none(pid, &HashSet::new());
        if ties == Ties::Standing {
            stop = Self::main(pid, ties)?;
        }
        for tid in thread_ids(pid)? {
            if thread_state(pid, tid) == Some('D') && !stop.has(tid) {
                stop.seize(tid, tid == pid && ties == Ties::Kept)?;
            }
        }
        stop.wait_for_all(Instant::now() + PATIENCE)?;
        stop.restart_clock();
        if !stop.has(pid) {
            if !stop.seize(pid, ties == Ties::Kept)? {
                return Err(missing_thread(pid));
            }
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

    fn none(pid: i32, left: &HashSet<i32>) -> Self {
        poll_stragglers();
        Stop {
            pid,
            threads: Vec::new(),
            waiting: waiting(pid, left),
            since: Instant::now(),
            _under_way: UnderWay::begin(),
        }
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

    /// Stops every other thread too.
    pub fn rest(&mut self) -> Result<()> {
        self.rest_but(&HashSet::new())
    }

    fn rest_but(&mut self, left: &HashSet<i32>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while thread_count(self.pid) != Some(self.threads.len() + left.len()) {
            let mut found = false;
            for tid in thread_ids(self.pid)? {
                if !left.contains(&tid) && !self.has(tid) {
                    found |= self.seize(tid, false)?;
                }
            }
            if !found {
                break;
            }
            self.wait_for_all(deadline)?;
        }
        Ok(())
    }

    /// Seizes and interrupts a thread; false if it has ended.
    fn seize(&mut self, tid: i32, kept: bool) -> Result<bool> {
        if !kept && !was_straggler(tid) {
            match ptrace::seize(tid, OPTIONS) {
                Ok(()) => {}
                // It ended since we read the list, or is a zombie leader of living threads.
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
            // It has run until now: being traced stops nobody.
            self.since = Instant::now();
        }
        self.threads.push(Thread {
            tid,
            stopped: false,
            grouped: false,
            kept,
            stays: false,
        });
        match ptrace::interrupt(tid) {
            Ok(()) | Err(Errno::ESRCH) => Ok(true),
            Err(errno) => Err(ptrace::explain(self.pid, "interrupting a thread", errno)),
        }
    }

    /// A thread may not be seized: somebody traces it, or we may not. Another lancet's stop may end between that answer
    /// and our question for the tracer, and the next one may begin before we seize it after all.
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
        Err(crate::guest::why_not_allowed(self.pid))
    }

    /// Waits until every thread stands still; those that end meanwhile are forgotten.
    fn wait_for_all(&mut self, deadline: Instant) -> Result<()> {
        for at in 0..self.threads.len() {
            let tid = self.threads[at].tid;
            if self.threads[at].stopped {
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
                    // It stands, and its tracer decides what comes next.
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
        self.threads.retain(|thread| thread.stopped);
        Ok(())
    }

    /// The ids of the threads that stand still.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// How long the process has been standing still.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// The thread has run in between: counts the time of the stop from now on.
    pub fn restart_clock(&mut self) {
        self.since = Instant::now();
    }

    /// Lets the threads go on; how long they stood still.
    pub fn release(mut self) -> Duration {
        if self.threads.is_empty() {
            return Duration::ZERO;
        }
        self.let_go();
        // Before we may be stopped ourselves, if that was asked for.
        self.since.elapsed()
    }

    /// Stays the tracer of the threads that stand still: they go on, stop at the start and the end of each system call from
    /// now on, and report what `options` ask (`PTRACE_O_*`). Their ids.
    pub fn trace_on(mut self, options: i32) -> Vec<i32> {
        self.shorten_waits();
        let threads = self.threads.drain(..).map(|thread| {
            // An error means that it is gone, and its end comes next.
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

    /// A call that is made again is not to sleep as long again as it has slept.
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
        // First those that stand still: they wait for us.
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
    /// Sets the thread going, or puts it down among the stragglers: a thread of ours that does not
    /// stand still cannot be let go, and one that comes to stand still later must not stand for ever.
    fn let_go(self) {
        if self.stays {
            return;
        }
        // A group stop goes on: by itself after a detach, else if we listen.
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
            return;
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
    /// Signals that came for a thread of a program we started while it was being stopped. Nobody else hears of them.
    static HANDED_ON: RefCell<Vec<(i32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Signals that thread `tid` got on its way to a stop since this was last asked.
pub fn handed_on(tid: i32) -> Vec<i32> {
    HANDED_ON.with_borrow_mut(|all| {
        let own = all.extract_if(.., |(of, _)| *of == tid);
        own.map(|(_, signal)| signal).collect()
    })
}

/// Those threads of a process, but for those that are not stopped, that sleep with a timeout in a call that a stop interrupts.
fn waiting(pid: i32, left: &HashSet<i32>) -> HashMap<i32, Waiting> {
    let threads = thread_ids(pid).unwrap_or_default();
    let stopped = threads.into_iter().filter(|tid| !left.contains(tid));
    stopped
        .filter_map(|tid| Some((tid, Waiting::of(pid, tid)?)))
        .collect()
}

/// Whether a thread that stands still does so for SIGSTOP or the like. It may have been stopped so since we first saw it
/// stand: a remote call goes on through a group stop.
fn in_group_stop(tid: i32) -> bool {
    let stands = ptrace::signal_information(tid);
    // The last stop's signal and event, as wait(2) tells them (`ptrace_do_notify`, kernel/signal.c).
    stands.is_ok_and(|stands| {
        stands.si_code >> 8 == libc::PTRACE_EVENT_STOP && stands.si_code & 0xff != libc::SIGTRAP
    })
}

/// How many threads there are, dying ones too: two less than the links of `/proc/PID/task` (`proc_task_getattr`,
/// fs/proc/base.c). If all of those that we hold are alive and no more are, none is left that could start another; to
/// ask takes one call where the list takes five.
fn thread_count(pid: i32) -> Option<usize> {
    let links = fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink();
    usize::try_from(links.checked_sub(2)?).ok()
}

/// The ids in `/proc/PID/task`.
pub fn thread_ids(pid: i32) -> Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|error| Error::of_proc(pid, "task", error))?;
    Ok(proc_file::numbers_in(entries).collect())
}

fn thread_is_dead(pid: i32, tid: i32) -> bool {
    matches!(thread_state(pid, tid), None | Some('Z' | 'X'))
}

/// The process that traces a thread; 0 = none.
fn tracer_of(tid: i32) -> i32 {
    crate::guest::Status::read(tid).map_or(0, |status| status.tracer)
}

/// Whether a thread is on a processor or waits for one.
pub fn is_running(pid: i32, tid: i32) -> bool {
    thread_state(pid, tid) == Some('R')
}

/// The letter of its state; `None` = it is gone.
pub fn thread_state(pid: i32, tid: i32) -> Option<char> {
    let stat = proc_file::of_thread(pid, tid, "stat").ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Where a thread is, for a message: its state and what it waits for in the kernel.
pub fn place(pid: i32, tid: i32) -> String {
    let state =
        thread_state(pid, tid).map_or_else(|| "gone".into(), |state| format!("state {state}"));
    state + &wait_channel(pid, tid)
}

fn wait_channel(pid: i32, tid: i32) -> String {
    match proc_file::of_thread(pid, tid, "wchan") {
        Ok(place) if !place.is_empty() && place != "0" => format!(" ({place})"),
        _ => String::new(),
    }
}
