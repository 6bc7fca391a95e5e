//! The hook is out while no thread wants its account, and births are counted for nobody else: a program of whose requests one in a hundred is
//! traced makes the objects of the others as fast as without us.
//!
//! It is taken out one to two times [`LOOK_OFTEN`] births after the last account has ended, so one request after the other has it in all the time. What
//! was known of addresses is not true any more when it is set again: code and classes were born that nobody has told of.

use super::accounts;
use super::agent::{Agent, LOOK_OFTEN, NEWBORNS, NOBODY};
use super::watch::on_event;
use core::sync::atomic::{Ordering, fence};
use wire::{ControlPage, Farewell, Ledger};

impl Agent {
    /// Takes the hook out if nobody has wanted to count for a while. The VM's lock is held.
    pub fn rest_if_unwanted(&mut self, ledger: &mut Ledger) {
        if !may_rest(ledger) {
            return;
        }
        self.until_look = LOOK_OFTEN;
        let wanted = accounts::any_wanted(ledger);
        if wanted || self.wanted {
            self.wanted = wanted;
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
