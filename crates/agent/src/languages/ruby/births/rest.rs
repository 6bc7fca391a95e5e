//! Removes the hook while no thread wants its account and no one else wants births counted: in a program that traces one request in a
//! hundred, the other requests make objects as fast as without the agent. Used by `door` and `presence`.
//!
//! The hook is removed some births after the last account has ended ([`Agent::patience`]), and the next account sets it again. What was
//! known of addresses is outdated then, because code and classes were born unseen. Looking everything up anew takes some 0.1 ms, as much as
//! half a millisecond with the hook set costs. So if the next account comes sooner, the patience grows, and with one request after the
//! other the hook stays set.

use super::agent::{Agent, LEAST_PATIENCE, NEWBORNS, NOBODY};
use super::watch::on_event;
use crate::births::accounts;
use crate::memory::sys;
use core::sync::atomic::{Ordering, fence};
use wire::{ControlPage, Farewell, Ledger};

/// The greatest number of births for which the hook stays set after the last account has ended; `LEAST_PATIENCE` is the least.
const MOST_PATIENCE: u32 = 1024;

/// A rest counts as short if it is shorter than this part of [`wire::Config::heartbeat_ticks`], which are 5 s.
const SHORT: u64 = 10_000;

impl Agent {
    /// Notes that an account has ended. The hook is removed some births later.
    pub fn is_unwanted(&mut self, ledger: &Ledger) {
        if may_rest(ledger) {
            self.presence.until_look = self.presence.until_look.min(self.patience);
        }
    }

    /// Removes the hook if no account counts. The VM's lock is held.
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
            // SAFETY: the VM's lock is held, as `remove_hook` requires, and `self.hook` is the function that was set.
            unsafe { self.vm.remove_hook(hook) };
        }
    }

    /// Sets the hook again. `false`: the agent has left, because the command is gone, or because there are Ractors now, which this Ruby
    /// does not support beside the hook.
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
        // SAFETY: the VM's lock is held, as `add_hook` requires.
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
    // SAFETY: `ledger` is a live reference; the command writes the word at any time, as one aligned word, hence the volatile read.
    unsafe { (&raw const ledger.may_rest).read_volatile() != 0 }
}
