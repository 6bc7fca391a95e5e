//! Which addresses are stacks: a table that a signal handler can read.
//!
//! A slab is entered when it is mapped and erased before it is unmapped, both under the pool's
//! lock; a reader takes no lock. Each row is guarded by a sequence: odd while it is being changed, and
//! re-read by the reader, so a row is seen whole or not at all.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Rows of the table. Slabs beyond that work but are unknown to the overflow report.
const ROWS: usize = 4096;

struct Row {
    sequence: AtomicU64,
    base: AtomicUsize,
    len: AtomicUsize,
    stride: AtomicUsize,
    guard: AtomicUsize,
}

static TABLE: [Row; ROWS] = [const {
    Row {
        sequence: AtomicU64::new(0),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        stride: AtomicUsize::new(0),
        guard: AtomicUsize::new(0),
    }
}; ROWS];

/// One past the last row ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// A mapping of stacks of one size, each with its guard below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slab {
    /// Lowest address of the mapping.
    pub base: usize,
    /// Bytes, a multiple of `stride`.
    pub len: usize,
    /// Bytes from one stack's guard to the next one's.
    pub stride: usize,
    /// Bytes of each guard.
    pub guard: usize,
}

/// One stack of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Lowest address of the guard.
    pub guard: usize,
    /// Lowest usable address; equal to `guard` when there is no guard.
    pub limit: usize,
    /// One past the highest usable address.
    pub top: usize,
}

impl Slab {
    /// Returns the stack whose guard or memory `address` is in.
    pub fn slot(&self, address: usize) -> Option<Slot> {
        let offset = address.checked_sub(self.base)?;
        if offset >= self.len {
            return None;
        }
        let guard = self.base + offset / self.stride * self.stride;
        Some(Slot {
            guard,
            limit: guard + self.guard,
            top: guard + self.stride,
        })
    }
}

/// Enters a slab; returns its row, if there was one.
pub fn enter(slab: Slab) -> Option<usize> {
    for (index, row) in TABLE.iter().enumerate() {
        // A row is free when its length is zero. Odd is busy: whoever makes it odd owns it.
        let sequence = row.sequence.load(Ordering::Acquire);
        if !sequence.is_multiple_of(2)
            || row.len.load(Ordering::Relaxed) != 0
            || row
                .sequence
                .compare_exchange(sequence, sequence + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            continue;
        }
        fence(Ordering::Release);
        row.base.store(slab.base, Ordering::Relaxed);
        row.len.store(slab.len, Ordering::Relaxed);
        row.stride.store(slab.stride, Ordering::Relaxed);
        row.guard.store(slab.guard, Ordering::Relaxed);
        row.sequence.store(sequence + 2, Ordering::Release);
        USED.fetch_max(index + 1, Ordering::AcqRel);
        return Some(index);
    }
    None
}

/// Erases a row that [`enter`] returned.
pub fn erase(index: usize) {
    let row = &TABLE[index];
    let sequence = row.sequence.fetch_add(1, Ordering::AcqRel);
    fence(Ordering::Release);
    row.len.store(0, Ordering::Relaxed);
    row.sequence.store(sequence + 2, Ordering::Release);
}

/// Returns the stack that `address` is in, or in whose guard. Takes no lock; async-signal-safe.
pub fn find(address: usize) -> Option<Slot> {
    TABLE[..USED.load(Ordering::Acquire)]
        .iter()
        .find_map(|row| row.read()?.slot(address))
}

/// Returns whether a stack lies at or above `address`, at most `reach` bytes away. Takes no lock; async-signal-safe.
pub fn is_near_above(address: usize, reach: usize) -> bool {
    let slabs = TABLE[..USED.load(Ordering::Acquire)].iter();
    slabs.filter_map(Row::read).any(|slab| {
        let ends_above = slab.base.saturating_add(slab.len) > address;
        ends_above && slab.base.saturating_sub(address) <= reach
    })
}

impl Row {
    /// Returns the row as it was at one moment; `None` if it is empty or was changed meanwhile (then it did not hold a
    /// stack in use, because those are entered before and erased after).
    fn read(&self) -> Option<Slab> {
        let before = self.sequence.load(Ordering::Acquire);
        let slab = Slab {
            base: self.base.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            stride: self.stride.load(Ordering::Relaxed),
            guard: self.guard.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2) && slab.len != 0).then_some(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLAB: Slab = Slab {
        base: 0x10_0000,
        len: 0x6000,
        stride: 0x3000,
        guard: 0x1000,
    };

    #[test]
    fn an_address_finds_its_stack_and_its_guard() {
        let second = Slot {
            guard: 0x10_3000,
            limit: 0x10_4000,
            top: 0x10_6000,
        };
        assert_eq!(SLAB.slot(0x10_3000), Some(second));
        assert_eq!(SLAB.slot(0x10_5fff), Some(second));
        assert_eq!(SLAB.slot(0x10_2fff).map(|s| s.guard), Some(0x10_0000));
        assert_eq!(SLAB.slot(0x10_6000), None);
        assert_eq!(SLAB.slot(0xf_ffff), None);
    }

    #[test]
    fn an_erased_slab_is_not_found_and_its_row_is_used_again() {
        // Addresses no mapping of a test can have.
        let mine = Slab {
            base: 0xffff_8000_0000_0000,
            ..SLAB
        };
        let row = enter(mine).expect("a free row");
        assert!(find(mine.base + 5).is_some());
        assert!(is_near_above(mine.base + 5, 0) && is_near_above(mine.base - 5, 5));
        assert!(!is_near_above(mine.base - 5, 4) && !is_near_above(mine.base + mine.len, 9));
        erase(row);
        assert_eq!(find(mine.base + 5), None);
    }
}
