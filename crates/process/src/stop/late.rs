//! Threads that do not stop in time, and the wait for a thread's stop. Used by `thread`, `waiting` and others here, and
//! by the crates `enter`, `inject` and `frames`.
//!
//! A thread that does not stand still cannot be let go. It is added to the stragglers: an interrupt is pending for it,
//! so it stops before it runs any of its program's code, and [`poll_stragglers`] then lets it go.

use super::state::{thread_is_dead, thread_is_gone, tracer_of};
use crate::interrupted::repeat_call;
use crate::job_control::UnderWay;
use crate::proc_file::own_thread;
use crate::ptrace::{self, Event};
use nix::errno::Errno;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// A thread that was seized and did not stop in time.
struct Straggler {
    /// Its process, whose id its exec gives it.
    pid: i32,
    tid: i32,
    /// When it was interrupted last.
    asked: Instant,
}

thread_local! {
    /// Uninterruptible waits, and threads without a processor. Each thread of ours has a list, because only the thread that has seized one may let it go.
    static STRAGGLERS: RefCell<Vec<Straggler>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of stragglers that have stopped meanwhile. It should be called often.
pub fn poll_stragglers() {
    // Whoever is let go under another id may become a straggler again.
    let mut all = STRAGGLERS.take();
    all.retain_mut(|one| {
        let waited = wait_until_interrupted(one.tid, Instant::now(), &mut Vec::new());
        match waited {
            Waited::Stopped(_) | Waited::At(_) => {
                repeat_call(one.tid, one.tid);
                let _ = ptrace::detach(one.tid, 0);
                false
            }
            Waited::Unknown if is_first_now(one.pid, one.tid) => {
                // At once, because a tracer of ours that had the first thread before would take its stops. An error means that it has ended.
                let _ = let_go_until(one.pid, one.pid, Instant::now() + ptrace::PATIENCE);
                false
            }
            Waited::Gone | Waited::Unknown => false,
            Waited::Late => {
                if one.asked.elapsed() >= AGAIN {
                    one.asked = Instant::now();
                    // Its exec may have lost the first one. An error means that it has ended.
                    let _ = ptrace::interrupt(one.tid);
                }
                true
            }
        }
    });
    STRAGGLERS.with_borrow_mut(|new| new.append(&mut all));
}

/// Makes no stop for this time. Stragglers are let go meanwhile, and until there is none lancet itself is not stopped (`job_control`): a process
/// would stand for it.
pub fn leave_alone(time: Duration) {
    let until = Instant::now() + time;
    let under_way = UnderWay::begin();
    poll_stragglers();
    while STRAGGLERS.with_borrow(|all| !all.is_empty()) && Instant::now() < until {
        std::thread::sleep(LOOK);
        poll_stragglers();
    }
    drop(under_way);
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
}

/// Removes a thread of a process from the stragglers, if it is one: it is seized already. Its exec may have given it the id of its process
/// since it was added.
pub(super) fn was_straggler(pid: i32, tid: i32) -> bool {
    let is_it = |one: &Straggler| {
        let has_left = || thread_is_gone(pid, one.tid) && is_first_now(pid, one.tid);
        one.tid == tid || pid == tid && one.pid == pid && has_left()
    };
    STRAGGLERS.with_borrow_mut(|all| match all.iter().position(is_it) {
        Some(at) => {
            all.swap_remove(at);
            true
        }
        None => false,
    })
}

/// Whether a thread that we have seized, and of which wait(2) knows nothing by its id any more, has got that of its process from its exec: nobody
/// has heard that it ended, and we trace the first thread.
pub(super) fn is_first_now(pid: i32, tid: i32) -> bool {
    pid != tid && ptrace::end_of(tid).is_none() && own_thread() == Some(tracer_of(pid))
}

pub(super) enum Waited {
    /// In an interrupt stop (`SIGTRAP`), or in a group stop by this signal.
    Stopped(i32),
    /// It has ended.
    Gone,
    /// We have no thread of that id: its end was heard before, or it has another id ([`is_first_now`]).
    Unknown,
    /// At a `PTRACE_EVENT_*` that its tracer has asked for; it stands there.
    At(i32),
    Late,
}

/// Waits for the stop that an interrupt causes. Signals that come before it are delivered and noted.
pub(super) fn wait_until_interrupted(
    tid: i32,
    deadline: Instant,
    handed_on: &mut Vec<i32>,
) -> Waited {
    loop {
        let resumed = match ptrace::wait(tid, deadline) {
            Ok(Event::Interrupted(signal)) => return Waited::Stopped(signal),
            Ok(Event::Signal(signal)) => {
                ptrace::resume(tid, signal).map(|()| handed_on.push(signal))
            }
            Ok(Event::Special(event)) => return Waited::At(event),
            // Any stop of another kind cancels a pending interrupt (`ptrace_stop`, kernel/signal.c).
            Ok(Event::Syscall) => ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0)),
            Ok(Event::Exited(_) | Event::Killed(_)) => return Waited::Gone,
            Err(_) => return Waited::Unknown,
            Ok(Event::Nothing) => return without_event(tid).unwrap_or(Waited::Late),
        };
        // If that failed, the thread was woken up, by SIGKILL as far as is known; its end is reported next.
        if resumed.is_err()
            && let Some(waited) = without_event(tid)
        {
            return waited;
        }
    }
}

/// How long a thread is waited for before the ends of others are heard, and it is interrupted again.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Between two looks at stragglers while nothing is stopped.
const LOOK: Duration = Duration::from_millis(1);

/// How often a straggler is interrupted again: each interrupt ends a call that sleeps in the kernel.
const AGAIN: Duration = Duration::from_millis(5);

/// Calls `look`, which waits for a thread that was interrupted until the time it is given, until it returns something, or `deadline` is over
/// (`None`). In between the ends of other threads of ours in its process are heard, for which its exec may be waiting, and it is interrupted
/// again, because a thread in its exec can lose an interrupt (seen with Linux 6.18).
///
/// # Errors
/// As for [`ptrace::hear_ends`].
pub(super) fn hearing_ends<T>(
    tid: i32,
    deadline: Instant,
    mut look: impl FnMut(Instant) -> Option<T>,
) -> std::result::Result<Option<T>, Errno> {
    loop {
        let until = deadline.min(Instant::now() + AT_ONCE);
        let found = look(until);
        if found.is_some() || until == deadline {
            return Ok(found);
        }
        ptrace::hear_ends(tid)?;
        // An error means that it has ended.
        let _ = ptrace::interrupt(tid);
    }
}

/// Returns what is known of a thread of which no event is told; `None` = it goes on.
fn without_event(tid: i32) -> Option<Waited> {
    if thread_is_gone(tid, tid) {
        return Some(Waited::Unknown);
    }
    // The end of a first thread is not told before the others have ended.
    thread_is_dead(tid, tid).then_some(Waited::Gone)
}

/// Adds a thread to the stragglers of process `pid`, which is not asked for here: its exec may have taken that id from it already.
pub(crate) fn is_late(pid: i32, tid: i32) {
    let asked = Instant::now();
    STRAGGLERS.with_borrow_mut(|all| all.push(Straggler { pid, tid, asked }));
}

/// Hears of the end of a thread of process `pid` that we have seized; if the kernel does not tell it yet, [`poll_stragglers`] does. That of a
/// first thread is told when all others have ended. One that has the id of the process from its exec is let go.
pub(super) fn hear_end(pid: i32, tid: i32) {
    match wait_until_interrupted(tid, Instant::now(), &mut Vec::new()) {
        Waited::Late => is_late(pid, tid),
        // An error means that it has ended.
        Waited::Unknown if is_first_now(pid, tid) => drop(let_go(pid, pid)),
        _ => {}
    }
}

/// Ends the tracing of thread `tid` of process `pid`, which runs or stands at an event that was not reported, also if its exec gives it the id
/// of the process meanwhile or has done so; if other code of ours goes on with the thread of that id, `pid` is `tid`. A child that it has just
/// made, which the kernel has put under our tracing, is let go too. A thread that does not stop within
/// [`ptrace::LONGEST_WAIT`] is let go by [`poll_stragglers`] as soon as it does.
///
/// # Errors
/// Those of ptrace(2) and wait(2).
pub fn let_go(pid: i32, tid: i32) -> std::result::Result<(), Errno> {
    let_go_until(pid, tid, Instant::now() + ptrace::LONGEST_WAIT)
}

/// The same, and a thread that does not stop until then is a straggler.
fn let_go_until(pid: i32, tid: i32, until: Instant) -> std::result::Result<(), Errno> {
    match let_go_of(pid, tid, until) {
        // Of one that has ended wait(2) tells that, which is heard here; of one that has another id it knows nothing.
        Err(Errno::ESRCH | Errno::ECHILD)
            if pid != tid && ptrace::poll(tid).is_err() && is_first_now(pid, tid) =>
        {
            let_go_until(pid, pid, until)
        }
        // It is gone.
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    }
}

/// The same for a thread that keeps its id; ESRCH or ECHILD if it has not.
fn let_go_of(pid: i32, tid: i32, until: Instant) -> std::result::Result<(), Errno> {
    ptrace::interrupt(tid)?;
    let told = hearing_ends(tid, until, |until| match ptrace::wait(tid, until) {
        Ok(Event::Nothing) => None,
        told => Some(told),
    });
    // An exec may wait for a thread that stands at its end, which is told to its tracer: then this one is late.
    let mut event = told.unwrap_or_default().unwrap_or(Ok(Event::Nothing))?;
    // A thread that is followed from call to call stops at the end of its call first, with EINTR as the result, and that stop has cancelled
    // the interrupt. Only at an interrupt's own stop can the call be made again.
    while event == Event::Syscall {
        ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0))?;
        event = ptrace::wait(tid, until)?;
    }
    match event {
        Event::Nothing => {
            is_late(pid, tid);
            Ok(())
        }
        Event::Exited(_) | Event::Killed(_) => Ok(()),
        // A signal that the program ignores would not have interrupted its call without us.
        Event::Signal(signal) => {
            repeat_call(tid, tid);
            ptrace::detach(tid, signal)
        }
        Event::Special(
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
        ) => {
            if let Ok(child) = ptrace::event_message(tid) {
                let_go_made(pid, child as i32)?;
            }
            ptrace::detach(tid, 0)
        }
        Event::Special(_) | Event::Interrupted(_) | Event::Syscall => {
            repeat_call(tid, tid);
            ptrace::detach(tid, 0)
        }
    }
}

/// Lets go what a thread of process `pid` has just made: another thread of it, or a child.
fn let_go_made(pid: i32, made: i32) -> std::result::Result<(), Errno> {
    let of = if thread_is_gone(pid, made) { made } else { pid };
    let_go(of, made)
}
