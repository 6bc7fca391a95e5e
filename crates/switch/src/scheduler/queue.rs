//! The scheduler of a thread: which tasks are ready, which sleep, which runs; and how a task is parked and woken.

use core::cell::{Cell, RefCell};
use std::collections::{BinaryHeap, VecDeque};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::task::{Task, Timer};

#[derive(Default)]
pub(super) struct Scheduler {
    pub(super) ready: RefCell<VecDeque<Rc<Task>>>,
    pub(super) timers: RefCell<BinaryHeap<Timer>>,
    pub(super) all: RefCell<Vec<Weak<Task>>>,
    pub(super) current: RefCell<Option<Rc<Task>>>,
    pub(super) ended: Cell<usize>,
}

std::thread_local! {
    static HERE: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

/// The scheduler of this thread.
///
/// # Panics
///
/// Outside [`super::run`].
// A call, for the reason that `blocks` gives.
#[inline(never)]
pub(super) fn here() -> Rc<Scheduler> {
    HERE.with_borrow(|here| here.clone())
        .expect("not in a task: call scheduler::run first")
}

/// Makes `scheduler` the one of this thread.
///
/// # Panics
///
/// When there is one already.
#[inline(never)]
pub(super) fn begin(scheduler: Rc<Scheduler>) {
    HERE.with_borrow_mut(|here| {
        assert!(here.is_none(), "a scheduler runs on this thread already");
        *here = Some(scheduler);
    });
}

/// Says that this thread has no scheduler any more.
#[inline(never)]
pub(super) fn end() {
    HERE.with_borrow_mut(|here| *here = None);
}

impl Scheduler {
    /// Runs something as if `task` were current.
    pub(super) fn enter(&self, task: &Rc<Task>, what: impl FnOnce(&Task)) {
        let before = self.current.replace(Some(task.clone()));
        what(task);
        self.current.replace(before);
    }

    /// Resumes a task once.
    pub(super) fn turn(&self, task: Rc<Task>) {
        task.queued.set(false);
        self.enter(&task, |task| {
            if task.resume() {
                self.ended.set(self.ended.get() + 1);
            }
        });
        self.sweep();
    }

    /// Forgets tasks that have ended, when they are the larger part of the list.
    pub(super) fn sweep(&self) {
        let mut all = self.all.borrow_mut();
        if self.ended.get() > 32 && self.ended.get() * 2 > all.len() {
            all.retain(|task| task.strong_count() > 0);
            self.ended.set(0);
        }
    }

    /// Makes sleepers ready whose time has come; the time until the next one.
    pub(super) fn wake_sleepers(&self) -> Option<Duration> {
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
    pub(super) fn make_ready(&self, task: Rc<Task>) {
        if !task.queued.replace(true) {
            self.ready.borrow_mut().push_back(task);
        }
    }

    pub(super) fn current(&self) -> Rc<Task> {
        self.current.borrow().clone().expect("in a task")
    }
}

/// Makes a parked task ready again. Belongs to one OS thread, as its scheduler does.
pub struct Unparker {
    task: Rc<Task>,
    scheduler: Weak<Scheduler>,
}

impl Unparker {
    fn new(task: Rc<Task>, scheduler: Weak<Scheduler>) -> Self {
        Unparker { task, scheduler }
    }

    /// The task returns from [`park`] when its turn comes. If it was not parked, it may do so
    /// the next time it parks.
    pub fn unpark(&self) {
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.make_ready(self.task.clone());
        }
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
