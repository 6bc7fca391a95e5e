//! A channel between tasks of one scheduler.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::{Unparker, park, unparker};

/// The other side is gone. A sender gets its value back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub T);

struct Shared<T> {
    queue: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
    waiting_senders: VecDeque<Unparker>,
    waiting_receivers: VecDeque<Unparker>,
}

/// Puts values in. Clones send to the same channel.
pub struct Sender<T>(Rc<RefCell<Shared<T>>>);

/// Takes values out, first in first out. Clones share them.
pub struct Receiver<T>(Rc<RefCell<Shared<T>>>);

/// A channel for `capacity` values, at least one.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        queue: VecDeque::new(),
        capacity: capacity.max(1),
        senders: 1,
        receivers: 1,
        waiting_senders: VecDeque::new(),
        waiting_receivers: VecDeque::new(),
    }));
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Waits for room, then puts a value in.
    pub fn send(&self, value: T) -> Result<(), Closed<T>> {
        loop {
            let mut shared = self.0.borrow_mut();
            if shared.receivers == 0 {
                return Err(Closed(value));
            }
            if shared.queue.len() < shared.capacity {
                shared.queue.push_back(value);
                let waiter = shared.waiting_receivers.pop_front();
                drop(shared);
                if let Some(waiter) = waiter {
                    waiter.unpark();
                }
                return Ok(());
            }
            shared.waiting_senders.push_back(unparker());
            drop(shared);
            park();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for a value; an error when there is none and no sender is left.
    pub fn recv(&self) -> Result<T, Closed<()>> {
        loop {
            let mut shared = self.0.borrow_mut();
            if let Some(value) = shared.queue.pop_front() {
                let waiter = shared.waiting_senders.pop_front();
                drop(shared);
                if let Some(waiter) = waiter {
                    waiter.unpark();
                }
                return Ok(value);
            }
            if shared.senders == 0 {
                return Err(Closed(()));
            }
            shared.waiting_receivers.push_back(unparker());
            drop(shared);
            park();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().receivers += 1;
        Receiver(self.0.clone())
    }
}

/// Wakes everybody in a queue of waiters.
fn wake_all(waiters: VecDeque<Unparker>) {
    for waiter in waiters {
        waiter.unpark();
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        shared.senders -= 1;
        if shared.senders == 0 {
            let waiters = core::mem::take(&mut shared.waiting_receivers);
            drop(shared);
            wake_all(waiters);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        shared.receivers -= 1;
        if shared.receivers == 0 {
            let waiters = core::mem::take(&mut shared.waiting_senders);
            drop(shared);
            wake_all(waiters);
        }
    }
}
