//! What all processes of a run share that are seen by ptrace at first: when BPF programs see their calls, and which programs run scripts.
//! Used by `family`, `stepped::hooked_later`, `guest::life` and others.

use process::interpreters::Interpreters;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is known of processes that are seen by ptrace before they are hooked.
#[derive(Default)]
pub struct Leads {
    /// The programs that run scripts.
    pub interpreters: Rc<RefCell<Interpreters>>,
    /// When BPF programs see their calls.
    pub due: Rc<Due>,
    /// Whether it was said that there are such processes.
    pub told: Cell<bool>,
}

/// After so many calls of all processes together their stops have cost as much as it costs to load the BPF programs: some 30 µs each, and some
/// 5 ms.
pub const CALLS_OF_ALL: u32 = 150;

/// Whether BPF programs are to see calls, and what decides when. All processes of a run share it.
#[derive(Default)]
pub struct Due {
    /// The calls that all processes have made.
    calls: Cell<u32>,
    /// Whether BPF programs may see calls: nothing that is asked speaks against it, and the kernel has not refused them.
    may: Cell<bool>,
}

impl Due {
    /// From what is asked.
    pub fn new(may: bool) -> Rc<Self> {
        Rc::new(Due {
            calls: Cell::new(0),
            may: Cell::new(may),
        })
    }

    /// Whether a process that comes to a place for it has its calls seen by BPF programs from there on.
    pub fn is_now(&self) -> bool {
        self.may.get() && self.calls.get() >= CALLS_OF_ALL
    }

    /// Notes a call that a process has made.
    pub fn note_call(&self) {
        self.calls.set(self.calls.get().saturating_add(1));
    }

    /// Notes that the kernel does not allow them.
    pub fn never(&self) {
        self.may.set(false);
    }
}
