//! Green threads: coroutines that take turns on one OS thread, round robin.
//!
//! Enough to write thread-ring and to show the library; not a runtime. [`run`] makes a scheduler on
//! the calling thread and runs its argument as the first task; within it, [`spawn`], [`yield_now`],
//! [`sleep`], [`park`], [`JoinHandle::join`] and [`channel`](channel()) work.
//!
//! ```text
//!   run() ──resume──► task 1 ──yield_now()──► back in run() ──resume──► task 2 …
//!              ready: a queue of tasks; a task that waits is in no queue but in somebody's hands
//!              (a channel, a join handle, the timers, an Unparker), who puts it back
//! ```
//!
//! When the first task ends, all others are cancelled. A task that suspends in a destructor then is abandoned, as
//! every coroutine that cannot be ended: nobody would resume it.

mod channel;
mod join;
mod task;

use core::cell::{Cell, RefCell};
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::vec::Vec;

pub use channel::{Closed, Receiver, Sender, channel};
pub use join::JoinHandle;
pub use task::Unparker;
use task::{Task, Timer};

use crate::builder::Builder;
use crate::error::Error;

/// After so many resumes in a row the idle function is asked for a moment, so that input is seen
/// even when some task is always ready.
const TURNS: u32 = 256;

struct Scheduler {
    ready: RefCell<VecDeque<Rc<Task>>>,
    timers: RefCell<BinaryHeap<Timer>>,
    all: RefCell<Vec<std::rc::Weak<Task>>>,
    current: RefCell<Option<Rc<Task>>>,
    ended: Cell<usize>,
}

std::thread_local! {
    static HERE: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

/// The scheduler of this thread.
///
/// # Panics
///
/// Outside [`run`].
fn here() -> Rc<Scheduler> {
    HERE.with_borrow(|here| here.clone())
        .expect("not in a task: call scheduler::run first")
}

/// Runs `main` as the first task; returns its result when it ends.
///
/// # Panics
///
/// With the panic of `main`; when every task waits for another; when called inside a task.
pub fn run<T: 'static>(main: impl FnOnce() -> T + 'static) -> T {
    run_with(main, |wait| match wait {
        Some(wait) => std::thread::sleep(wait),
        None => panic!("deadlock: every task waits for another"),
    })
}

/// As [`run`], with a function of yours for the time when no task is ready: it gets the time until
/// the next sleeper wakes (`None`: nobody sleeps), and may unpark tasks. It is also asked now and
/// then, with zero, while tasks are ready.
pub fn run_with<T: 'static>(
    main: impl FnOnce() -> T + 'static,
    mut idle: impl FnMut(Option<Duration>),
) -> T {
    let scheduler = Rc::new(Scheduler {
        ready: RefCell::default(),
        timers: RefCell::default(),
        all: RefCell::default(),
        current: RefCell::new(None),
        ended: Cell::new(0),
    });
    HERE.with_borrow_mut(|here| {
        assert!(here.is_none(), "a scheduler runs on this thread already");
        *here = Some(scheduler.clone());
    });
    let leaving = Leaving(scheduler);
    let handle = spawn(main);
    let mut turns = 0;
    while !handle.is_finished() {
        let task = leaving.0.ready.borrow_mut().pop_front();
        match task {
            Some(task) if turns < TURNS => {
                turns += 1;
                leaving.0.turn(task);
            }
            // Put back at the front: it keeps its turn.
            Some(task) => {
                leaving.0.ready.borrow_mut().push_front(task);
                turns = 0;
                leaving.0.wake_sleepers();
                idle(Some(Duration::ZERO));
            }
            None => {
                turns = 0;
                let wait = leaving.0.wake_sleepers();
                if leaving.0.ready.borrow().is_empty() {
                    idle(wait);
                    leaving.0.wake_sleepers();
                }
            }
        }
    }
    handle.into_result()
}

/// Ends what is left when [`run_with`] returns or unwinds.
struct Leaving(Rc<Scheduler>);

impl Drop for Leaving {
    fn drop(&mut self) {
        // Destructors of cancelled tasks may still spawn and wake others: until none is left.
        loop {
            let all = self.0.all.take();
            if all.is_empty() {
                break;
            }
            for task in all.iter().filter_map(std::rc::Weak::upgrade) {
                self.0.enter(&task, |task| drop(task.take()));
            }
        }
        self.0.ready.take();
        self.0.timers.take();
        HERE.with_borrow_mut(|here| *here = None);
    }
}

impl Scheduler {
    /// Runs something as if `task` were current.
    fn enter(&self, task: &Rc<Task>, what: impl FnOnce(&Task)) {
        let before = self.current.replace(Some(task.clone()));
        what(task);
        self.current.replace(before);
    }

    /// Resumes a task once.
    fn turn(&self, task: Rc<Task>) {
        task.queued.set(false);
        self.enter(&task, |task| {
            if task.resume() {
                self.ended.set(self.ended.get() + 1);
            }
        });
        self.sweep();
    }

    /// Forgets tasks that have ended, when they are the larger part of the list.
    fn sweep(&self) {
        let mut all = self.all.borrow_mut();
        if self.ended.get() > 32 && self.ended.get() * 2 > all.len() {
            all.retain(|task| task.strong_count() > 0);
            self.ended.set(0);
        }
    }

    /// Makes sleepers ready whose time has come; the time until the next one.
    fn wake_sleepers(&self) -> Option<Duration> {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() {
            return None;
        }
        let now = Instant::now();
        while let Some(timer) = timers.peek() {
            if timer.at > now {
                return Some(timer.at - now);
            }
            let timer = timers.pop().expect("just seen");
            self.make_ready(timer.task);
        }
        None
    }

    /// Puts a task into the queue, unless it is there.
    fn make_ready(&self, task: Rc<Task>) {
        if !task.queued.replace(true) {
            self.ready.borrow_mut().push_back(task);
        }
    }

    fn current(&self) -> Rc<Task> {
        self.current.borrow().clone().expect("in a task")
    }
}

/// Starts a task; it first runs when its turn comes.
///
/// # Panics
///
/// When there is no stack for it: see [`try_spawn`].
pub fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    match try_spawn(Builder::new(), body) {
        Ok(handle) => handle,
        Err(error) => panic!("no task: {error}"),
    }
}

/// As [`spawn`], with a name, a size or a pool of your own.
pub fn try_spawn<T: 'static>(
    builder: Builder<'_>,
    body: impl FnOnce() -> T + 'static,
) -> Result<JoinHandle<T>, Error> {
    let scheduler = here();
    let (task, handle) = join::make(builder, body)?;
    scheduler.all.borrow_mut().push(Rc::downgrade(&task));
    scheduler.make_ready(task);
    Ok(handle)
}

/// Lets every other ready task have its turn.
pub fn yield_now() {
    let scheduler = here();
    let task = scheduler.current();
    scheduler.make_ready(task.clone());
    drop(scheduler);
    task.suspend();
}

/// Waits at least this long.
pub fn sleep(time: Duration) {
    let scheduler = here();
    let task = scheduler.current();
    let at = Instant::now() + time;
    while Instant::now() < at {
        scheduler.timers.borrow_mut().push(Timer {
            at,
            task: task.clone(),
        });
        task.suspend();
    }
}

/// Waits until somebody uses the [`Unparker`] of this task, or for no reason at all: check, and
/// park again.
pub fn park() {
    here().current().suspend();
}

/// What makes the current task ready again after [`park`].
pub fn unparker() -> Unparker {
    let scheduler = here();
    Unparker::new(scheduler.current(), Rc::downgrade(&scheduler))
}
