//! Which threads of a process have slept since they were read, without asking each of them. Used by `on_processors`, `running` and
//! `sleepers`.
//!
//! The kernel runs a program whenever a processor goes from one thread to another, which marks who has left it (`tracepoint::Switches`).
//! All programs of the machine pay for that, so it is done for processes of which many threads sleep alone. A thread without a mark has slept
//! since its mark was taken away, which is done before the thread is read, or has a processor now, where it is seen.

use std::cell::OnceCell;
use std::rc::Rc;

use tracepoint::Switches;

/// Of so many threads that sleep each is asked at every look.
const FEW: usize = 64;

thread_local! {
    /// `None` in it: the kernel does not allow it.
    static SWITCHES: OnceCell<Option<Rc<Switches>>> = const { OnceCell::new() };
}

/// The marks of the threads of a process.
pub(super) struct Marks {
    switches: Rc<Switches>,
    pid: i32,
}

impl Marks {
    /// Has threads of a process marked from now on, if so many of them sleep that it is worth it and the kernel allows it.
    pub(super) fn begin(pid: i32, asleep: usize) -> Option<Marks> {
        if asleep <= FEW {
            return None;
        }
        let made = |made: &OnceCell<Option<Rc<Switches>>>| {
            let begin = || Switches::begin().ok().map(Rc::new);
            made.get_or_init(begin).clone()
        };
        let switches = SWITCHES.with(made)?;
        switches.add(pid).ok()?;
        Some(Marks { switches, pid })
    }

    /// Whether a thread has left a processor since its mark was taken away.
    pub(super) fn has_left(&self, tid: i32) -> bool {
        self.switches.has_left(tid)
    }

    /// Takes the mark of a thread away: what is read of it from now on is true until it has a mark.
    pub(super) fn forget(&self, tid: i32) {
        self.switches.forget(tid);
    }

    /// Whether every thread that has left a processor since that was asked last has a mark.
    pub(super) fn are_all(&self) -> bool {
        !self.switches.have_missed()
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.switches.remove(self.pid);
    }
}
