//! Waiting for the result of a task.

use core::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::thread;

use super::queue::{Unparker, park, unparker};
use super::task::Task;
use crate::builder::Builder;
use crate::error::Error;

struct Slot<T> {
    result: Option<thread::Result<T>>,
    done: bool,
    waiter: Option<Unparker>,
}

/// The right to a task's result. Dropping it lets the task run on.
pub struct JoinHandle<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

impl<T> JoinHandle<T> {
    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.slot.borrow().done
    }

    /// Waits for the end of the task: its result, or the payload of its panic.
    pub fn join(self) -> thread::Result<T> {
        loop {
            let mut slot = self.slot.borrow_mut();
            if let Some(result) = slot.result.take() {
                return result;
            }
            slot.waiter = Some(unparker());
            drop(slot);
            park();
        }
    }

    /// Returns what the first task has returned, when it has ended.
    pub(super) fn into_result(self) -> T {
        let result = self.slot.borrow_mut().result.take();
        match result.expect("the task has ended") {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }
}

/// Announces the end of a task, however it comes.
struct Announce<T>(Rc<RefCell<Slot<T>>>);

impl<T> Drop for Announce<T> {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.done = true;
        let waiter = slot.waiter.take();
        drop(slot);
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
    }
}

/// A task that runs `body` and stores its result, and the handle to that.
pub fn make<T: 'static>(
    builder: Builder<'_>,
    body: impl FnOnce() -> T + 'static,
) -> Result<(Rc<Task>, JoinHandle<T>), Error> {
    let slot = Rc::new(RefCell::new(Slot {
        result: None,
        done: false,
        waiter: None,
    }));
    let task = Rc::new(Task::new());
    let announce = Announce(slot.clone());
    // Weak: the task owns the coroutine, not the other way round.
    let weak = Rc::downgrade(&task);
    let coroutine = builder.spawn(move |suspender, ()| {
        let announce = announce;
        weak.upgrade()
            .expect("resumed by its task")
            .started(suspender);
        // A panic is the result; a cancellation must go on, and is no panic of the body's: it comes
        // with a payload that only the coroutine's first function knows.
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(value) => announce.0.borrow_mut().result = Some(Ok(value)),
            Err(payload) if crate::unwind::is_cancellation(&*payload) => resume_unwind(payload),
            Err(payload) => announce.0.borrow_mut().result = Some(Err(payload)),
        }
    })?;
    task.fill(coroutine);
    Ok((task, JoinHandle { slot }))
}
