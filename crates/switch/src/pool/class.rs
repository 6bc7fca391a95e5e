//! The stacks of one size: slabs, the next slot never used, and the free list.

use std::collections::VecDeque;
use std::vec::Vec;

use super::registry::{self, Slab};
use super::stats::Stats;
use super::sys::{self, Guard, PAGE, Reuse};
use crate::error::Error;

/// Slots of the first slab; each further one has twice as many, up to [`MOST_BYTES`].
const FIRST_SLOTS: usize = 16;

/// Bytes of the largest slab. With it a million stacks of the default size take some 2,500 mappings.
const MOST_BYTES: usize = 128 << 20;

/// The most free stacks of a class whose pages stay, with [`Reuse::Warm`].
pub const WARM: usize = 64;

/// The stacks of one size.
#[derive(Debug)]
pub struct Class {
    /// Usable bytes of each.
    pub size: usize,
    guard_size: usize,
    guard: Guard,
    slabs: Vec<(Slab, Option<usize>)>,
    /// Number of slots in all slabs.
    slots: usize,
    /// The slots from here to `end`, the end of the last slab, were never used.
    fresh: usize,
    end: usize,
    /// Fresh slots below this have their guards already.
    guarded: usize,
    /// Whether guards can be made many at a time.
    in_batches: bool,
    /// The most stacks in `warm`.
    most_warm: usize,
    /// The stacks that came back last: the next one to be given out is at the end.
    warm: VecDeque<usize>,
    /// Those whose pages went back to the kernel.
    cold: Vec<usize>,
}

impl Class {
    /// Makes a class without slabs. Both sizes are whole pages. A guard gets one page more if that makes the distance
    /// between two stacks an odd number of pages: at a multiple of a power of two the same offsets of all stacks
    /// compete for the same few lines of the cache.
    pub fn new(size: usize, guard_size: usize, guard: Guard, reuse: Reuse) -> Self {
        let even = ((size + guard_size) / PAGE).is_multiple_of(2);
        let guard_size = guard_size + if even && guard_size > 0 { PAGE } else { 0 };
        Class {
            size,
            guard_size,
            guard,
            slabs: Vec::new(),
            slots: 0,
            fresh: 0,
            end: 0,
            guarded: 0,
            in_batches: guard == Guard::Auto,
            most_warm: if reuse == Reuse::Warm {
                WARM
            } else {
                usize::MAX
            },
            warm: VecDeque::new(),
            cold: Vec::new(),
        }
    }

    /// Returns the lowest usable address of a stack that is the caller's until [`Class::put`].
    pub fn take(&mut self, stats: &mut Stats) -> Result<usize, Error> {
        if let Some(limit) = self.warm.pop_back().or_else(|| self.cold.pop()) {
            stats.free -= 1;
            stats.reused += 1;
            return Ok(limit);
        }
        if self.fresh == self.end {
            self.grow(stats)?;
        }
        // Room for its return, so that giving back never allocates.
        let warm = self.slots.min(self.most_warm.saturating_add(1));
        self.warm
            .try_reserve(warm.saturating_sub(self.warm.len()))?;
        if self.slots > self.most_warm {
            self.cold.try_reserve(self.slots - self.cold.len())?;
        }
        self.make_guard()?;
        if self.guard_size != 0 {
            match self.guard {
                Guard::Auto => stats.light_guards += 1,
                Guard::Mprotect => stats.mprotect_guards += 1,
            }
        }
        let limit = self.fresh + self.guard_size;
        self.fresh = limit + self.size;
        Ok(limit)
    }

    /// Makes sure that the next fresh slot has its guard, and makes those of some slots behind it.
    fn make_guard(&mut self) -> Result<(), Error> {
        if self.guard_size == 0 || self.fresh < self.guarded {
            return Ok(());
        }
        if self.in_batches {
            let stride = self.size + self.guard_size;
            let count = ((self.end - self.fresh) / stride).min(sys::BATCH);
            self.in_batches = sys::light_guards(self.fresh, self.guard_size, stride, count);
            if self.in_batches {
                self.guarded = self.fresh + count * stride;
                return Ok(());
            }
        }
        // Neither is tried again: the kind of guard that this slot needed is the one that the others will need.
        let range = self.fresh..self.fresh + self.guard_size;
        self.guard = sys::guard(range, self.guard)?;
        Ok(())
    }

    /// Takes a stack back that [`Class::take`] returned. Returns one that waits too long, and that the class does not have
    /// any more: it is to be given back with [`Class::put_cold`] when its pages have gone.
    pub fn put(&mut self, limit: usize) -> Option<usize> {
        self.warm.push_back(limit);
        (self.warm.len() > self.most_warm).then(|| self.warm.pop_front())?
    }

    /// Takes a stack back whose pages have gone.
    pub fn put_cold(&mut self, limit: usize) {
        self.cold.push(limit);
    }

    /// Returns the stacks that wait for their next use.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        self.warm.iter().chain(&self.cold).copied()
    }

    /// Maps one more slab, a smaller one if the address space is short.
    fn grow(&mut self, stats: &mut Stats) -> Result<(), Error> {
        let stride = self
            .size
            .checked_add(self.guard_size)
            .ok_or(Error::TooLarge { asked: self.size })?;
        self.slabs.try_reserve(1)?;
        let most = (MOST_BYTES / stride).max(1);
        let mut slots = (FIRST_SLOTS << self.slabs.len().min(16)).min(most);
        let (base, len) = loop {
            let len = slots
                .checked_mul(stride)
                .ok_or(Error::TooLarge { asked: self.size })?;
            match sys::map(len) {
                Ok(base) => break (base, len),
                Err(error) if slots == 1 => return Err(error),
                Err(_) => slots /= 2,
            }
        };
        let slab = Slab {
            base,
            len,
            stride,
            guard: self.guard_size,
        };
        self.slabs.push((slab, registry::enter(slab)));
        self.slots += slots;
        self.fresh = base;
        self.guarded = base;
        self.end = base + len;
        stats.slabs += 1;
        stats.mapped += len;
        Ok(())
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        for (slab, row) in &self.slabs {
            if let Some(row) = *row {
                registry::erase(row);
            }
            // SAFETY: a class dies with its pool, which every stack in use keeps alive; so none of
            // this slab is.
            unsafe { sys::unmap(slab.base, slab.len) };
        }
    }
}
