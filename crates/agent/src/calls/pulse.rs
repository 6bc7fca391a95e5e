//! Checks whether the command lives: it changes `ControlPage::heartbeat` four times a second. Used by `record`, `call`,
//! `loader` and others.
//!
//! Hooks do not wait for a command that is silent for a moment. After a longer silence the gate is closed, and hooks
//! cost only a jump. Silence is measured in time and not in waits, because many threads may wait at once, and a wait may
//! have no length.

use super::session::calls;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::{AtomicU64, Ordering};

/// Silence in nanoseconds up to which hooks wait.
const PATIENCE: u64 = 1_500_000_000;
/// Silence in nanoseconds after which the gate is closed.
const GIVEN_UP: u64 = 5_000_000_000;
/// Cycles between two checks by hooks that need not wait: about half a second.
const LOOK: u64 = 1 << 31;

/// The least time in nanoseconds between the check that finds the silence too long and the one that closes the gate. If
/// the whole machine stood still (a suspended laptop, a frozen virtual machine), the command could not change the
/// heartbeat either, and does so within this time.
const SECOND_LOOK: u64 = 500_000_000;

/// The last heartbeat that was seen, and when it was new. `SINCE` is written first, so that a thread which reads the new
/// heartbeat reads no older time with it.
static BEAT: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// When the silence was first found too long; 0 = it is not too long.
static DOUBTED: AtomicU64 = AtomicU64::new(0);
/// When a hook last checked, in cycles.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Checks from time to time, for hooks that only count.
#[inline]
pub fn look(ticks: u64) {
    if is_due(ticks) {
        seldom(ticks);
    }
}

/// Whether the next check is due.
#[inline(always)]
pub fn is_due(ticks: u64) -> bool {
    ticks.wrapping_sub(LOOKED.load(Ordering::Relaxed)) > LOOK
}

#[cold]
#[inline(never)]
fn seldom(ticks: u64) {
    LOOKED.store(ticks, Ordering::Relaxed);
    beats();
}

/// Whether a hook may wait for room.
#[cold]
pub fn beats() -> bool {
    silence() < PATIENCE
}

/// Whether a thread may wait for an answer to an event that happens once in a process's life.
#[cold]
pub fn lives() -> bool {
    silence() < GIVEN_UP
}

/// Sets what is known of the heartbeat.
#[cfg(test)]
pub fn silent_since(beat: u64, since: u64, doubted: u64) {
    BEAT.store(beat, Ordering::Relaxed);
    SINCE.store(since, Ordering::Relaxed);
    DOUBTED.store(doubted, Ordering::Relaxed);
}

/// Returns how long the command has been silent, in nanoseconds. Closes the gate if that is too long.
fn silence() -> u64 {
    let session = CONTROL_PAGE.calls.load(Ordering::Relaxed);
    let beat = CONTROL_PAGE.heartbeat.load(Ordering::Relaxed);
    let now = sys::now();
    if BEAT.load(Ordering::Acquire) != beat {
        SINCE.store(now, Ordering::Relaxed);
        DOUBTED.store(0, Ordering::Relaxed);
        BEAT.store(beat, Ordering::Release);
        return 0;
    }
    let silence = now.saturating_sub(SINCE.load(Ordering::Relaxed));
    if silence <= GIVEN_UP {
        return silence;
    }
    let doubted = DOUBTED.load(Ordering::Relaxed);
    if doubted == 0 {
        DOUBTED.store(now, Ordering::Relaxed);
    }
    if doubted == 0 || now.saturating_sub(doubted) < SECOND_LOOK {
        return GIVEN_UP - 1;
    }
    // The gate stays open if another session was opened just now.
    let order = Ordering::Relaxed;
    let gate = &CONTROL_PAGE.calls;
    if session != 0 && gate.compare_exchange(session, 0, order, order).is_ok() {
        calls().silenced.store(sys::ticks(), Ordering::Relaxed);
    }
    silence
}
