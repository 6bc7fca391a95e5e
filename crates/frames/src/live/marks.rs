//! Which threads of a process have slept since they were read, without asking each of them. Used by `on_processors`, `running` and
//! `sleepers`.
//!
//! The kernel runs a program whenever a processor goes from one thread to another, which marks who has left it (`tracepoint::Switches`).
//! All programs of the machine pay for that, so it is done for processes of which many threads sleep alone, and as long as they do. A thread
//! without a mark has slept since its mark was taken away, which is done before the thread is read, or has a processor now.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tracepoint::Switches;

/// Of so many threads that sleep each is asked at every look.
const FEW: usize = 64;
/// After so many looks in a row in which less than half as many sleep there are no marks.
const LOOKS: u32 = 64;

thread_local! {
    /// One serves all processes, until nobody has it. `None`: the kernel does not allow it.
    static SWITCHES: RefCell<Option<Weak<Switches>>> = const { RefCell::new(Some(Weak::new())) };
}

/// The marks of the threads of a process.
pub(super) struct Marks {
    switches: Rc<Switches>,
    pid: i32,
    /// When they began.
    began: u64,
    /// How often a program had not run when that was asked last.
    missed: Cell<u64>,
    /// How many looks there were in a row in which few threads slept.
    looks: Cell<u32>,
}

impl Marks {
    /// Whether so many threads sleep that marks are worth it.
    pub(super) fn are_worth_it(asleep: usize) -> bool {
        asleep > FEW
    }

    /// Has threads of a process marked from now on, if the kernel allows it.
    pub(super) fn begin(pid: i32) -> Option<Marks> {
        let switches = SWITCHES.with_borrow_mut(|made| {
            let made = made.as_mut()?;
            if let Some(switches) = made.upgrade() {
                return Some(switches);
            }
            let switches = Rc::new(Switches::begin().ok()?);
            *made = Rc::downgrade(&switches);
            Some(switches)
        });
        if switches.is_none() {
            SWITCHES.set(None);
        }
        let switches = switches?;
        switches.add(pid).ok()?;
        Some(Marks {
            pid,
            began: switches.now(),
            missed: Cell::new(switches.missed()),
            looks: Cell::new(0),
            switches,
        })
    }

    /// Whether marks are still worth it in a look before which so many threads slept.
    pub(super) fn stay(&self, asleep: usize) -> bool {
        let looks = if asleep < FEW / 2 {
            self.looks.get() + 1
        } else {
            0
        };
        self.looks.set(looks);
        looks < LOOKS
    }

    /// Whether a thread has left a processor `since` its mark was taken away, or since there are marks: who was read before was asked then.
    pub(super) fn has_left(&self, tid: i32, since: u64) -> bool {
        self.switches.has_left(tid, since.max(self.began))
    }

    /// Takes the mark of a thread away, and returns since when: what is read of it from now on is true until it has a mark.
    pub(super) fn forget(&self, tid: i32) -> u64 {
        self.switches.forget(tid)
    }

    /// Whether every thread that has left a processor since that was asked last has a mark.
    pub(super) fn are_all(&self) -> bool {
        let missed = self.switches.missed();
        self.missed.replace(missed) == missed
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.switches.remove(self.pid);
    }
}
