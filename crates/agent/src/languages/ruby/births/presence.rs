//! Checks whether the command is still there, and takes the agent out when it is not: after the command's death, in the
//! child of a fork, before a Ractor, after a panic of its own. Used by `watch` and `collections`.

use super::agent::{AGENT, Agent, NEWBORNS};
use super::census;
use crate::births::accounts::{self, Own};
use crate::memory::sys;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::{ControlPage, Farewell, Ledger, State};

impl Agent {
    /// Removes the hook and unmaps all memory. The VM's lock is held.
    pub fn leave(&mut self, ledger: &mut Ledger) {
        self.unhook();
        self.forget(ledger);
    }

    /// Removes the hook. The VM's lock is held.
    fn unhook(&mut self) {
        if let Some(hook) = self.hook.take() {
            // SAFETY: the VM's lock is held, as `remove_hook` requires, and `self.hook` is the function that was set.
            unsafe { self.vm.remove_hook(hook) };
        }
        if self.mover != 0 {
            // SAFETY: the VM's lock is held, as `let_go` requires, and `mover` is the place that was registered.
            unsafe { self.vm.let_go(&raw mut self.mover) };
            self.mover = 0;
        }
    }

    /// Ends the accounts and unmaps all that the ledger leads to, as a session ends.
    pub fn forget(&mut self, ledger: &mut Ledger) {
        accounts::free(ledger);
        self.own = Own::NONE;
        (ledger.may_rest, ledger.rests) = (0, 0);
        self.held = false;
        self.summary.free();
        self.slots.free();
        (ledger.slot_roots, ledger.page_shift) = (0, 0);
        self.books.free(ledger);
        census::free(ledger);
    }

    /// Runs every [`LOOK_EVERY`](crate::births::heartbeat::LOOK_EVERY) births: checks whether the command is still there, and whether there is a reason to
    /// leave.
    #[cold]
    #[inline(never)]
    pub fn look_round(&mut self, control_page: &ControlPage, ledger: &mut Ledger) {
        if self.held {
            self.presence.until_look = 1;
            return;
        }
        if self.farewell.is_none() && self.look(control_page) {
            self.farewell = Some(Farewell::Alone);
        }
        if let Some(why) = self.farewell {
            self.depart(control_page, ledger, why);
        } else {
            self.rest_if_unwanted(ledger);
        }
    }

    /// Leaves, and says why.
    pub fn depart(&mut self, control_page: &ControlPage, ledger: &mut Ledger, why: Farewell) {
        let counts = ledger.rests == 0;
        self.unhook();
        control_page.hooked.store(0, Ordering::Relaxed);
        if why == Farewell::Ractor && counts {
            self.settle(ledger, NEWBORNS);
        }
        control_page.deserted.store(why as u32, Ordering::Release);
        if why == Farewell::Ractor && counts {
            await_last_count(control_page);
        }
        control_page
            .state
            .store(State::Quiet as u32, Ordering::Relaxed);
        self.forget(ledger);
    }

    /// See [`Presence::look`](crate::births::heartbeat::Presence::look).
    pub fn look(&mut self, control_page: &ControlPage) -> bool {
        let ticks = self.config.heartbeat_ticks;
        self.presence.look(control_page, ticks)
    }
}

/// The longest time in nanoseconds that the program stands still for the count before its first Ractor, and for which
/// the command may be silent meanwhile.
const LAST_COUNT: u64 = 5_000_000_000;
const SILENCE: u64 = 1_500_000_000;

/// Waits until the command has read the books and walked over the heap, and has set the state to quiet: from the next
/// instruction on, objects are born that are not counted, in slots that have numbers. The thread holds the VM's lock, so
/// no other thread changes the heap. It waits without a system call, because its seccomp filter may forbid those that
/// sleep.
fn await_last_count(control_page: &ControlPage) {
    let began = sys::now();
    let (mut beat, mut heard) = (0, began);
    while control_page.state.load(Ordering::Acquire) == State::Open as u32 {
        let now = sys::now();
        let beats = control_page.heartbeat.load(Ordering::Relaxed);
        if beats != beat {
            (beat, heard) = (beats, now);
        }
        if now.wrapping_sub(began) > LAST_COUNT || now.wrapping_sub(heard) > SILENCE {
            return;
        }
        for _ in 0..1000 {
            core::hint::spin_loop();
        }
    }
}

/// Handles a call of the hook although the control page is blank: this process was made by a fork, which wiped the page.
#[cold]
pub fn stranger() {
    // SAFETY: a forked child has one thread, which holds the VM's lock, so no other reference to `AGENT` or `LEDGER` is
    // in use.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let control_page = &CONTROL_PAGE;
    if agent.hook.is_none() {
        return;
    }
    // The word is read anew: a command that cannot reach the VM's lock clears it before it clears the state.
    // SAFETY: `CONFIG` is a static of ours; the command writes the word as one aligned word, hence the volatile read.
    if unsafe { (&raw const CONFIG.follow).read_volatile() } != 0 {
        agent.presence.begin(control_page);
        control_page.forked.store(1, Ordering::Relaxed);
        control_page.hooked.store(1, Ordering::Relaxed);
        control_page
            .state
            .store(State::Open as u32, Ordering::Release);
    } else {
        agent.leave(ledger);
        control_page.hooked.store(0, Ordering::Relaxed);
    }
}
