//! Sets the hook on births in the VM, and handles its calls. Used by `rest`.

use super::agent::{AGENT, Agent, NEWBORNS, NOBODY};
use super::compaction::{MOVER, MOVER_DATA};
use super::presence::stranger;
use super::{census, door};
use crate::languages::ruby::vmcalls::NEWOBJ;
use crate::memory::follow::kept;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::{ControlPage, Ledger, Reply, State};

impl Agent {
    /// Sets the hook on births. The VM's lock is held.
    pub fn watch(&mut self, control_page: &ControlPage, ledger: &mut Ledger) -> Reply {
        let Some(reader) = self.names.reader() else {
            return Reply::Refused;
        };
        let heap = &reader.layout().heap;
        let page_shift = heap.align.trailing_zeros();
        let sizes = heap.pools.as_ref().map_or(1, |pools| pools.count);
        if self.slots.open(page_shift, sizes as u32).is_none() || self.books.open(ledger).is_none()
        {
            self.forget(ledger);
            return Reply::NoMemory;
        }
        ledger.slot_roots = self.slots.address();
        ledger.page_shift = u64::from(self.slots.page_shift());
        (ledger.may_rest, ledger.rests) = (0, 0);
        self.farewell = None;
        self.newborns = [NOBODY; NEWBORNS];
        self.presence.begin(control_page);
        if self.config.door != 0 {
            // SAFETY: the VM's lock is held, as `define` requires.
            unsafe { door::define(&self.vm) };
        }
        // SAFETY: the VM's lock is held, as these functions require. `MOVER` and the place `self.mover`
        // are in the agent's image, which is never unmapped.
        unsafe {
            self.mover = self.vm.wrap(0, MOVER_DATA, &raw const MOVER);
            self.vm.keep(&raw mut self.mover);
            self.vm.add_hook(on_event);
        }
        self.hook = Some(on_event);
        if self.config.census_at_end != 0 && !self.ends {
            self.ends = true;
            // SAFETY: the VM's lock is held, as `at_end` requires; `census::at_end` is in the agent's
            // image, which is never unmapped.
            unsafe { self.vm.at_end(census::at_end, 0) };
        }
        Reply::Done
    }
}

/// Called by the VM at every birth and before every collection, with its lock held.
pub unsafe extern "C" fn on_event(_data: u64, arg: u64) {
    let control_page = &CONTROL_PAGE;
    if control_page.state.load(Ordering::Relaxed) != State::Open as u32 {
        return stranger();
    }
    // SAFETY: the VM calls the hook with its lock held, which admits one thread at a time; no second
    // Ractor starts while the hook is set (`Farewell::Ractor`). Where the agent itself makes objects
    // while the hook is set (`door`), it keeps no reference to the statics.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    // SAFETY: the VM passes the address of a live `rb_trace_arg_t`, whose first word is the event.
    if unsafe { *kept::<u32>(arg) } != NEWOBJ {
        agent.settle(ledger, NEWBORNS);
    } else if agent.busy {
        ledger.unbooked += 1;
    } else {
        if agent.birth(ledger, arg).is_none() {
            ledger.lost_memory += 1;
            agent.disown(arg);
        }
        agent.presence.until_look -= 1;
        if agent.presence.until_look == 0 {
            agent.look_round(control_page, ledger);
        }
    }
}
