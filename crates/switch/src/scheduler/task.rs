//! A task: a coroutine, and where its body can be suspended from.

use core::cell::{Cell, RefCell};
use core::cmp::Ordering;
use std::rc::Rc;
use std::time::Instant;

use crate::coroutine::{Coroutine, State};
use crate::suspender::Suspender;

/// A task. Whoever it waits for holds it, and so do its own frames while it stands still: a task
/// that nobody wakes stays until its scheduler ends, and is cancelled then.
pub struct Task {
    coroutine: RefCell<Option<Coroutine<(), (), ()>>>,
    /// The suspender of the running body; null before it runs.
    suspender: Cell<*const Suspender<(), ()>>,
    /// Whether it is in the ready queue.
    pub queued: Cell<bool>,
}

impl Task {
    pub fn new() -> Task {
        Task {
            coroutine: RefCell::new(None),
            suspender: Cell::new(core::ptr::null()),
            queued: Cell::new(false),
        }
    }

    /// Gives the task its body.
    pub fn fill(&self, coroutine: Coroutine<(), (), ()>) {
        *self.coroutine.borrow_mut() = Some(coroutine);
    }

    /// Called by the body, first of all.
    pub fn started(&self, suspender: &Suspender<(), ()>) {
        self.suspender.set(suspender);
    }

    /// Resumes the body; whether it has ended.
    pub fn resume(&self) -> bool {
        let mut coroutine = self.coroutine.borrow_mut();
        let ended = match coroutine.as_mut() {
            Some(coroutine) => coroutine.resume(()) == State::Finished(()),
            None => true,
        };
        if ended {
            coroutine.take();
        }
        ended
    }

    /// Suspends the body. To be called in it only.
    pub fn suspend(&self) {
        let suspender = self.suspender.get();
        assert!(!suspender.is_null(), "suspended from outside");
        // SAFETY: `started` stored the reference the body was lent, which is valid until the body has ended; only the
        // current task is suspended, and none that has ended is current while anything of the program's runs.
        unsafe { (*suspender).suspend(()) };
    }

    /// Takes the coroutine out, to cancel it by dropping.
    pub fn take(&self) -> Option<Coroutine<(), (), ()>> {
        self.coroutine.try_borrow_mut().ok()?.take()
    }
}

/// When a task wants to be woken; the earliest is the greatest, for a `BinaryHeap`.
pub struct Timer {
    pub at: Instant,
    pub task: Rc<Task>,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}
