//! The stacks of one size: slabs, the next slot never used, and the free list.

use std::vec::Vec;

use super::Stats;
use super::registry::{self, Slab};
use super::sys::{self, Guard, PAGE};
use crate::error::Error;

/// Slots of the first slab; each further one has twice as many, up to [`MOST_BYTES`].
const FIRST_SLOTS: usize = 16;

/// Largest slab. With it a million stacks of the default size take some 6,000 mappings.
const MOST_BYTES: usize = 64 << 20;

/// The stacks of one size.
#[derive(Debug)]
pub struct Class {
    /// Usable bytes of each.
    pub size: usize,
    guard_size: usize,
    guard: Guard,
    slabs: Vec<(Slab, Option<usize>)>,
    /// Slots from here to the end of the last slab were never used.
    fresh: usize,
    free: Vec<usize>,
}

impl Class {
    /// No slab yet. Both sizes are whole pages. A guard gets one page more if that makes the
    /// distance between two stacks an odd number of pages: at a multiple of a power of two the
    /// same places of all stacks compete for the same few lines of the cache.
    pub fn new(size: usize, guard_size: usize, guard: Guard) -> Self {
        let even = ((size + guard_size) / PAGE).is_multiple_of(2);
        let guard_size = guard_size + if even && guard_size > 0 { PAGE } else { 0 };
        Class {
            size,
            guard_size,
            guard,
            slabs: Vec::new(),
            fresh: 0,
            free: Vec::new(),
        }
    }

    /// Lowest usable address of a stack that is the caller's until [`Class::put`].
    pub fn take(&mut self, stats: &mut Stats) -> Result<usize, Error> {
        if let Some(limit) = self.free.pop() {
            stats.free -= 1;
            stats.reused += 1;
            return Ok(limit);
        }
        let end = self
            .slabs
            .last()
            .map_or(0, |(slab, _)| slab.base + slab.len);
        if self.fresh == end {
            self.grow(stats)?;
        }
        let limit = self.fresh + self.guard_size;
        if self.guard_size != 0 {
            // Found out once: what the first guard needed, the others will too.
            self.guard = sys::guard(self.fresh..limit, self.guard)?;
            match self.guard {
                Guard::Auto => stats.light_guards += 1,
                Guard::Mprotect => stats.mprotect_guards += 1,
            }
        }
        // Room for its return, so that giving back never allocates.
        self.free.reserve(self.slots() - self.free.len());
        self.fresh = limit + self.size;
        Ok(limit)
    }

    /// Takes back what [`Class::take`] gave.
    pub fn put(&mut self, limit: usize) {
        self.free.push(limit);
    }

    /// Stacks that wait for their next use.
    pub fn free(&self) -> &[usize] {
        &self.free
    }

    fn slots(&self) -> usize {
        let stride = self.size + self.guard_size;
        self.slabs.iter().map(|(slab, _)| slab.len / stride).sum()
    }

    /// Maps one more slab, a smaller one if the address space is short.
    fn grow(&mut self, stats: &mut Stats) -> Result<(), Error> {
        let stride = self
            .size
            .checked_add(self.guard_size)
            .ok_or(Error::TooLarge { asked: self.size })?;
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
        self.fresh = base;
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
