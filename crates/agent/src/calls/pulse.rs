//! Whether the command lives: `Board::beat` changes four times a second as long as it does.
//!
//! A command that is silent for a moment is not waited for; after a longer silence the gate is closed, and hooks cost
//! nothing but a jump. Both are counted in time, not in waits: many threads may wait at once, and a wait may be of no length.

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::Board;

/// Silence, in nanoseconds, during which hooks still wait.
const PATIENCE: u64 = 1_500_000_000;
/// Silence after which nobody reads any more.
const GIVEN_UP: u64 = 5_000_000_000;
/// Cycles between two looks of a hook that need not wait: half a second or so.
const LOOK: u64 = 1 << 31;

/// The last beat that was seen, and when it was new.
static BEAT: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// When a hook looked last, in cycles.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Looks now and then, for hooks that only count.
#[inline]
pub fn look(board: &Board, ticks: u64) {
    if ticks.wrapping_sub(LOOKED.load(Ordering::Relaxed)) > LOOK {
        seldom(board, ticks);
    }
}

#[cold]
#[inline(never)]
fn seldom(board: &Board, ticks: u64) {
    LOOKED.store(ticks, Ordering::Relaxed);
    beats(board);
}

/// Whether it is worth waiting for room.
#[cold]
pub fn beats(board: &Board) -> bool {
    silence(board) < PATIENCE
}

/// Whether it is worth waiting for what happens once in a process's life.
#[cold]
pub fn lives(board: &Board) -> bool {
    silence(board) < GIVEN_UP
}

/// How long it has been silent, in nanoseconds. Closes the gate if nobody is there.
fn silence(board: &Board) -> u64 {
    let session = board.calls.load(Ordering::Relaxed);
    let beat = board.beat.load(Ordering::Relaxed);
    let now = sys::now();
    if BEAT.swap(beat, Ordering::Relaxed) != beat {
        SINCE.store(now, Ordering::Relaxed);
        return 0;
    }
    let silence = now.saturating_sub(SINCE.load(Ordering::Relaxed));
    if silence > GIVEN_UP && session != 0 {
        // Unless another session was opened just now.
        let _ = board
            .calls
            .compare_exchange(session, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
    silence
}
