//! The memory of what is counted: within bounds that the command sets, so that the program meets none of its own limits because of us. Used by
//! `book`.

use crate::calls::session::calls;
use crate::memory::follow::ours;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = wire::PAGE as u64;

/// Counts pages that are about to be touched. `None` = they would be too many.
pub fn charge(bytes: u64) -> Option<()> {
    let blocks = &calls().blocks;
    within(&blocks.taken, blocks.most.load(Ordering::Relaxed), bytes)
}

/// Whether less than half of what may be touched is.
pub fn is_half_free() -> bool {
    let blocks = &calls().blocks;
    let order = Ordering::Relaxed;
    blocks.taken.load(order) < blocks.most.load(order) / 2
}

/// Takes back what [`charge`] has counted.
pub fn give_back(bytes: u64) {
    less(&calls().blocks.taken, bytes);
}

/// Counts so many bytes more. `None` = they would be too many.
pub(super) fn within(taken: &AtomicU64, most: u64, bytes: u64) -> Option<()> {
    let before = taken.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) <= most {
        return Some(());
    }
    less(taken, bytes);
    None
}

/// Never below 0: the figure may have been set to 0 meanwhile, for another session.
fn less(taken: &AtomicU64, bytes: u64) {
    let order = Ordering::Relaxed;
    let _ = taken.fetch_update(order, order, |taken| Some(taken.saturating_sub(bytes)));
}

/// Maps whole pages of zeros. `None` = there is no memory, or they would be too many.
pub fn map(bytes: u64) -> Option<u64> {
    let blocks = &calls().blocks;
    within(
        &blocks.mapped,
        blocks.most_mapped.load(Ordering::Relaxed),
        bytes,
    )?;
    let Some(made) = sys::map(bytes) else {
        less(&blocks.mapped, bytes);
        return None;
    };
    sys::keep_apart(made, bytes);
    Some(made)
}

/// Gives a mapping of [`map`] back, whose address nobody else has ever known.
pub fn unmap(at: u64, bytes: u64) {
    // SAFETY: so callers promise.
    unsafe { sys::unmap(at, bytes) };
    less(&calls().blocks.mapped, bytes);
}

/// Maps memory whose address a word is to have, unless another thread does. `None` = there is no memory.
pub fn shared(word: &AtomicU64, bytes: u64) -> Option<()> {
    let made = map(bytes)?;
    let order = Ordering::AcqRel;
    if word
        .compare_exchange(0, made, order, Ordering::Relaxed)
        .is_err()
    {
        unmap(made, bytes);
    }
    Some(())
}

/// Makes a mapping of ours zeros again, which take no memory. 0 = there is none. Returns how many bytes it was.
pub fn empty(at: u64, bytes: u64) -> u64 {
    if at == 0 {
        return 0;
    }
    // SAFETY: callers pass whole pages of ours, whose words are numbers alone.
    if unsafe { sys::give_pages_back(at, bytes) } {
        return bytes;
    }
    // The program has locked its memory since (`mlockall`).
    for index in 0..bytes as usize / 8 {
        // SAFETY: as above; all words are within.
        let word = unsafe { &*ours::<AtomicU64>(at).wrapping_add(index) };
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
        }
    }
    bytes
}
