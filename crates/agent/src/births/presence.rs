//! Whether the command is still there, and how the agent leaves when it is not: in a command's death, in the child of a
//! fork, before a Ractor, after a panic of its own.

use super::accounts::{self, Own};
use super::agent::{AGENT, Agent, LOOK_EVERY, NEWBORNS};
use super::census;
use crate::memory::sys;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::{ControlPage, Farewell, Ledger, State};

impl Agent {
    /// Takes the hook out and gives all memory back. The VM's lock is held.
    pub fn leave(&mut self, ledger: &mut Ledger) {
        self.unhook();
        self.forget(ledger);
    }

    /// Takes the hook out. The VM's lock is held.
    fn unhook(&mut self) {
        if let Some(hook) = self.hook.take() {
            // SAFETY: the VM's lock is held; whoever set the hook noted it here.
            unsafe { self.vm.remove_hook(hook) };
        }
        if self.mover != 0 {
            // SAFETY: the VM's lock is held, and the place is the one that was registered.
            unsafe { self.vm.let_go(&raw mut self.mover) };
            self.mover = 0;
        }
    }

    /// Gives all memory back.
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

    /// Every so many births: is the command still there, and is there a reason to leave?
    #[cold]
    #[inline(never)]
    pub fn look_round(&mut self, control_page: &ControlPage, ledger: &mut Ledger) {
        if self.held {
            self.until_look = 1;
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

    /// Notes the command's heartbeat; whether it has been still for too long. A machine that was asleep looks
    /// the same at first, so the command has a quarter of the time more after that.
    pub fn look(&mut self, control_page: &ControlPage) -> bool {
        self.until_look = LOOK_EVERY;
        let beat = control_page.heartbeat.load(Ordering::Relaxed);
        let now = sys::ticks();
        if beat != self.heartbeat || self.heartbeat_seen == 0 {
            (self.heartbeat, self.heartbeat_seen) = (beat, now);
            self.doubted = false;
        }
        let late = now.wrapping_sub(self.heartbeat_seen) > self.config.heartbeat_ticks;
        if late && !self.doubted {
            self.doubted = true;
            self.heartbeat_seen = now.wrapping_sub(self.config.heartbeat_ticks / 4 * 3);
            return false;
        }
        late
    }
}

/// How long the program stands still for the count before its first Ractor, at most, in nanoseconds; and for how long of
/// that the command may be silent.
const LAST_COUNT: u64 = 5_000_000_000;
const SILENCE: u64 = 1_500_000_000;

/// Waits until the command has read the books and walked over the heap, and has set the state to quiet: from the next
/// instruction on objects are born that nobody counts, in slots that have numbers. The thread holds the VM's lock, so no
/// other changes the heap. It waits without a system call, because its thread's filter was asked for none that sleeps.
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

/// The hook runs although the control page is blank: a fork made this process, and wiped the page.
#[cold]
pub fn stranger() {
    // SAFETY: a forked child has one thread, which holds the VM's lock.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let control_page = &CONTROL_PAGE;
    if agent.hook.is_none() {
        return;
    }
    // Read anew: a command that cannot reach the VM's lock clears it before it clears the state.
    // SAFETY: written by the command as one aligned word.
    if unsafe { (&raw const CONFIG.follow).read_volatile() } != 0 {
        agent.heartbeat_seen = 0;
        agent.look(control_page);
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
