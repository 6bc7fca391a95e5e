//! The hook is out while no thread wants its account, and births are counted for nobody else: a program of whose requests one in a hundred is
//! traced makes the objects of the others as fast as without us.
//!
//! It is taken out some births after the last account has ended ([`Agent::patience`]), and the next one sets it again. What was known of addresses is not true any more
//! then: code and classes were born that nobody has told of. To look everything up anew takes some 0.1 ms, as much as it costs to have the hook in for half a
//! millisecond. So where the next account comes sooner the patience grows, and one request after the other has the hook in all the time.

use super::accounts;
use super::agent::{Agent, LEAST_PATIENCE, NEWBORNS, NOBODY};
use super::watch::on_event;
use crate::memory::sys;
use core::sync::atomic::{Ordering, fence};
use wire::{ControlPage, Farewell, Ledger};

/// Births for which the hook stays in after the last account has ended, at most; `LEAST_PATIENCE` is the least.
const MOST_PATIENCE: u32 = 1024;

/// A rest is short that is shorter than this part of [`wire::Config::heartbeat_ticks`], which are 5 s.
const SHORT: u64 = 10_000;

impl Agent {
    /// An account has ended; the hook is taken out after some births more.
    pub fn is_unwanted(&mut self, ledger: &Ledger) {
        if may_rest(ledger) {
            self.until_look = self.until_look.min(self.patience);
        }
    }

    /// Takes the hook out if nobody wants to count. The VM's lock is held.
    pub fn rest_if_unwanted(&mut self, ledger: &mut Ledger) {
        if !may_rest(ledger) {
            return;
        }
        if accounts::any_wanted(ledger) {
            return;
        }
        ledger.rests = 1;
        fence(Ordering::SeqCst);
        if !may_rest(ledger) {
            ledger.rests = 0;
            return;
        }
        if let Some(hook) = self.hook.take() {
            self.settle(ledger, NEWBORNS);
            self.resting_since = sys::ticks();
            // SAFETY: the VM's lock is held; whoever set the hook noted it here.
            unsafe { self.vm.remove_hook(hook) };
        }
    }

    /// Sets the hook again. `false`: the agent has left, because the command is gone, or there are Ractors now, which this Ruby does not bear
    /// beside the hook.
    pub fn rise(&mut self, control_page: &ControlPage, ledger: &mut Ledger) -> bool {
        let why = if self.look(control_page) {
            Some(Farewell::Alone)
        } else if self.config.ractor_class != 0 && self.has_several_ractors() {
            Some(Farewell::Ractor)
        } else {
            None
        };
        if let Some(why) = why {
            self.depart(control_page, ledger, why);
            return false;
        }
        let rested = sys::ticks().wrapping_sub(self.resting_since);
        self.patience = match rested < self.config.heartbeat_ticks / SHORT {
            true => (2 * self.patience).min(MOST_PATIENCE),
            false => LEAST_PATIENCE,
        };
        self.books.flush(ledger);
        self.newborns = [NOBODY; NEWBORNS];
        // SAFETY: the VM's lock is held.
        unsafe { self.vm.add_hook(on_event) };
        self.hook = Some(on_event);
        ledger.rests = 0;
        true
    }

    fn has_several_ractors(&self) -> bool {
        let vm = self.config.vm;
        let reader = self.names.reader();
        reader.and_then(|reader| reader.ractor_count(vm).ok()) != Some(1)
    }
}

fn may_rest(ledger: &Ledger) -> bool {
    // SAFETY: a live word of ours, which the command writes at any time, whole.
    unsafe { (&raw const ledger.may_rest).read_volatile() != 0 }
}
