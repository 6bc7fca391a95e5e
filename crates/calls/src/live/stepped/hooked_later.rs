//! A process that is seen by ptrace at first and hooked later. Used by `live::hooked_later` and `stepped`.
//!
//! To plan the hooks of a process takes as long as some thousands of stops, and most programs of a shell or a compiler end before they
//! have made so many calls. So one that is met at its exec while children are followed is stepped first. It is hooked
//! ([`Stands::ForHooks`]) when what its stops have cost is what hooking costs: in all it never costs more than twice what the better of
//! the two ways would have cost. Where BPF programs may see it, they do so before that ([`super::by_kernel`]), and it is not hooked any more: they
//! see more than hooks, and lose less.
//!
//! Where it changes over it has one thread, which stands behind a call that has been reported and before the next one: no call is lost, and
//! none is told twice. A program that runs scripts is hooked from its exec on ([`Stands::AtExec`]), for the lines of its calls.

use super::Stepped;
use crate::live::bpf::programs::Seen;
use crate::live::leads::{Due, Leads};
use process::interpreters::Interpreters;
use process::ptrace::{self, AtSystemCall, Side};
use std::cell::RefCell;
use std::rc::Rc;

/// After so many calls of a process its stops have cost as much as its hooks will: some 10 µs each, and some 100 ms.
pub const CALLS: u32 = 10_000;

/// After so many calls of its own a process goes over to BPF programs also where it makes no child and runs no other program. A child that a
/// shell or a server has made runs another one after fewer.
const CALLS_OF_ONE: u32 = 50;

/// Results of a call that the kernel makes again when the thread goes on (ERESTARTSYS to ERESTART_RESTARTBLOCK, include/linux/errno.h).
const MADE_AGAIN: std::ops::RangeInclusive<i64> = -516..=-512;

/// For what the only thread of a process stands still, until it is set going by whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is to be hooked where it stands.
    ForHooks,
    /// It is at the first instruction of a program that is to be hooked from there on.
    AtExec,
    /// BPF programs are to see its calls from here on.
    ForKernel {
        /// Whether its thread is in a call, which was reported: a fork or an exec.
        within: bool,
    },
}

/// What is known of a process that is to be hooked later.
pub struct Led {
    /// The calls that its program has made.
    calls: u32,
    /// Whether lancet has started it.
    kept: bool,
    /// Whether no other process uses its memory, as far as is known. Children between vfork and exec are waited for by their parents.
    alone: bool,
    /// Whether it was tried in vain.
    refused: bool,
    /// Whether BPF programs have no room for it, or must not hold it up.
    lacks_room: bool,
    /// Whether its thread was interrupted to change over.
    interrupted: bool,
    stands: Option<Stands>,
    interpreters: Rc<RefCell<Interpreters>>,
    due: Rc<Due>,
}

impl Led {
    /// For a process that stands at its exec.
    fn new(kept: bool, interpreters: Rc<RefCell<Interpreters>>, due: Rc<Due>) -> Self {
        Led {
            calls: 0,
            kept,
            alone: true,
            refused: false,
            lacks_room: false,
            interrupted: false,
            stands: None,
            interpreters,
            due,
        }
    }

    /// Whether BPF programs are to see its calls.
    fn may_go_over_to_kernel(&self) -> bool {
        self.due.is_now() && !self.lacks_room
    }

    /// For a child that the process `parent` has just made; whether it `waits` for that.
    pub(super) fn child(&mut self, parent: i32, (child, waits): (i32, bool)) -> Self {
        let shares = ptrace::share_memory(parent, child);
        // One that waits makes no call before its child has memory of its own, or has ended.
        self.alone &= !shares || waits;
        Led {
            alone: !shares,
            ..Led::new(false, self.interpreters.clone(), self.due.clone())
        }
    }

    /// Handles that another program begins, at whose first instruction the process stands. Returns whether it is to be hooked there.
    pub(super) fn begins(&mut self, pid: i32) -> bool {
        *self = Led::new(self.kept, self.interpreters.clone(), self.due.clone());
        let runs_scripts = self.interpreters.borrow_mut().runs(pid);
        self.stands = runs_scripts.then_some(Stands::AtExec);
        runs_scripts
    }
}

impl Stepped {
    /// Has it hooked later, because nothing speaks against hooks; whether lancet has started it.
    pub fn is_led(&mut self, kept: bool, leads: &Leads) {
        let (interpreters, due) = (leads.interpreters.clone(), leads.due.clone());
        self.led = Some(Led::new(kept, interpreters, due));
    }

    /// Has the process stand still where it is, if BPF programs are to see its calls from here on: its only thread is within a fork or an exec.
    pub(super) fn stands_for_kernel(&mut self) {
        let alone = self.threads.len() == 1 && self.threads.contains_key(&self.pid);
        let may = alone && !self.is_by_kernel;
        let led = self.led.as_mut();
        if let Some(led) = led.filter(|led| may && led.may_go_over_to_kernel()) {
            let here = Stands::ForKernel { within: true };
            led.stands = led.stands.or(Some(here));
        }
    }

    /// Sets its thread going, whose calls the programs see from now on, if the kernel allows them; whether it is within one that was reported.
    pub fn goes_on_by_kernel(&mut self, kernel: Option<Rc<Seen>>, within: bool) {
        if let Some(led) = &mut self.led {
            led.stands = None;
            if kernel.is_none() {
                led.due.never();
            }
        }
        self.kernel = kernel;
        if self.may_be_held_up() {
            self.go_over_to_kernel(within);
        }
        if let Some(led) = self.led.as_mut().filter(|_| !self.is_by_kernel) {
            led.lacks_room = true;
        }
        // An error means that it was killed; its end is reported next.
        let _ = self.resume(self.pid, 0);
    }

    /// Notes that BPF programs must not see its calls for as long as its program runs.
    pub(super) fn stays_stepped(&mut self) {
        if let Some(led) = &mut self.led {
            led.lacks_room = true;
        }
    }

    /// Returns for what it stands still.
    pub fn stands(&self) -> Option<Stands> {
        self.led.as_ref()?.stands
    }

    /// Whether lancet has started it.
    pub fn is_kept(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.kept)
    }

    /// Notes a stop of a thread at a system call, and interrupts the thread if the process is to change over behind it.
    pub(super) fn note_stop(&mut self, tid: i32, stop: &AtSystemCall) {
        let (threads, Some(led)) = (self.threads.len(), &mut self.led) else {
            return;
        };
        let Side::Ends { result } = stop.side else {
            return;
        };
        led.calls = led.calls.saturating_add(1);
        led.due.note_call();
        let hooks = led.calls >= CALLS && led.alone && !led.refused;
        let is_due = match led.may_go_over_to_kernel() {
            true => led.calls >= CALLS_OF_ONE,
            false => hooks,
        };
        if is_due && threads == 1 && !MADE_AGAIN.contains(&(result as i64)) {
            // It stops again before it runs any of its own code. An error means that it was killed.
            led.interrupted = ptrace::interrupt(tid).is_ok();
        }
    }

    /// Whether a thread that stands at an interrupt was brought there to change over, and is where that can be done.
    pub(super) fn stands_to_change_over(&mut self, tid: i32) -> bool {
        let one = self.threads.len() == 1;
        let (Some(led), Some(thread)) = (&mut self.led, self.threads.get(&tid)) else {
            return false;
        };
        let was = std::mem::take(&mut led.interrupted);
        if was && one && !thread.traced.is_inside() {
            led.stands = Some(match led.may_go_over_to_kernel() {
                true => Stands::ForKernel { within: false },
                false => Stands::ForHooks,
            });
        }
        led.stands.is_some()
    }

    /// Sets its thread going, which is seen by ptrace for as long as its program runs.
    pub fn goes_on(&mut self) {
        if let Some(led) = &mut self.led {
            (led.stands, led.refused) = (None, true);
        }
        // Whoever tried to take it may have asked the kernel for other events.
        let _ = ptrace::set_options(self.pid, self.options);
        // An error means that it was killed; its end is reported next.
        let _ = self.resume(self.pid, 0);
    }

    /// Forgets its threads, because others have it from now on.
    pub fn is_handed_over(&mut self) {
        self.threads.clear();
    }
}
