//! Whether the command lives: `ControlPage::heartbeat` changes four times a second as long as it does.
//!
//! A command that is silent for a moment is not waited for; after a longer silence the gate is closed, and hooks cost
//! nothing but a jump. Both are counted in time, not in waits: many threads may wait at once, and a wait may be of no
//! length.

use super::session::calls;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::{AtomicU64, Ordering};

/// Silence, in nanoseconds, during which hooks still wait.
const PATIENCE: u64 = 1_500_000_000;
/// Silence after which nobody reads any more.
const GIVEN_UP: u64 = 5_000_000_000;
/// Cycles between two looks of a hook that need not wait: half a second or so.
const LOOK: u64 = 1 << 31;

/// Between the look that finds the silence too long and the one that closes the gate, at least, in nanoseconds. Where
/// the whole machine stood still (a suspended laptop, a frozen virtual machine), the command had no time to beat either,
/// and beats within this time.
const SECOND_LOOK: u64 = 500_000_000;

/// The last heartbeat that was seen, and when it was new. `SINCE` is written first: who sees the new beat sees no older
/// time with it.
static BEAT: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// When the silence was first found too long; 0 = it is not.
static DOUBTED: AtomicU64 = AtomicU64::new(0);
/// When a hook looked last, in cycles.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Looks now and then, for hooks that only count.
#[inline]
pub fn look(ticks: u64) {
    if is_due(ticks) {
        seldom(ticks);
    }
}

/// Whether it is time for a look.
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

/// Whether it is worth waiting for room.
#[cold]
pub fn beats() -> bool {
    silence() < PATIENCE
}

/// Whether it is worth waiting for what happens once in a process's life.
#[cold]
pub fn lives() -> bool {
    silence() < GIVEN_UP
}

/// How long it has been silent, in nanoseconds. Closes the gate if nobody is there.
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
    // Unless another session was opened just now.
    let order = Ordering::Relaxed;
    let gate = &CONTROL_PAGE.calls;
    if session != 0 && gate.compare_exchange(session, 0, order, order).is_ok() {
        calls().silenced.store(sys::ticks(), Ordering::Relaxed);
    }
    silence
}
