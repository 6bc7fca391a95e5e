//! When the VM collects garbage by itself, and with which counts it soon collects all of it. Used by
//! `enter::languages::python::collected`.
//!
//! ```text
//!   an object that the collector knows is made ─► is generations[0].count above its threshold?
//!       ─► of the generations whose count is above its threshold the oldest is collected, and all younger ones with it;
//!          the oldest of all only if long_lived_pending is not less than a quarter of long_lived_total
//! ```
//!
//! `_PyObject_GC_Alloc` and `collect_generations` in `Modules/gcmodule.c` of 3.9; `gc_collect_generations` there to 3.12;
//! `_PyObject_GC_Link` and `gc_select_generation` in `Python/gc.c` of 3.13, 3.14.5 and 3.15. The collector of 3.14.0 to 3.14.4 is incremental
//! and never collects all by itself.
//!
//! A collection of the oldest generation sets all three counts to 0 and `long_lived_pending` too (`collect`, `gc_collect_main`), so whoever has
//! raised them need not undo anything then. Nothing else that the VM does lowers the last one.

use super::collector::GENERATION;
use super::{Error, Python};
use crate::{Fault, Memory};

/// `threshold` and `count` in `struct gc_generation`, which begins with a `PyGC_Head`.
const THRESHOLD: u64 = 16;
const COUNT: u64 = 20;
/// The oldest of the three generations.
const OLDEST: u64 = 2;

/// So many objects more than have died are made until the VM collects. Not the next one alone: a thread that comes back from a call holds the
/// locks that the program holds around it, and finalizers may wait for these. After so many it collects where it might have done so anyway.
const SOON: u32 = 32;
/// A program with a higher threshold than this, of any generation, keeps the VM from collecting when it would: no released VM has one above 2,000
/// by itself.
const MOST_THRESHOLD: u32 = 10_000;
/// Objects of one process; more are no number of objects.
const MOST_OBJECTS: u64 = 1 << 40;

/// Where a collector of the main interpreter counts: addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Automatic {
    generations: u64,
    total: u64,
}

/// What the VM decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Objects made since the last collection, less those that have died.
    pub young: u32,
    /// Collections of the generation before the oldest since the last one of the oldest.
    pub old: u32,
    /// Objects that have come into the oldest generation since then.
    pub pending: u64,
}

impl Counts {
    /// Whether all garbage was collected since these were written, if this is what stands there now.
    pub fn are_spent(&self, now: Counts) -> bool {
        now.old < self.old && now.pending < self.pending
    }

    /// What would stand there if `written` had not been written in the place of these.
    pub fn without(&self, written: Counts, now: Counts) -> Counts {
        Counts {
            young: now
                .young
                .saturating_sub(written.young.saturating_sub(self.young)),
            old: now.old.saturating_sub(written.old.saturating_sub(self.old)),
            pending: now
                .pending
                .saturating_sub(written.pending.saturating_sub(self.pending)),
        }
    }
}

impl<M: Memory> Python<'_, M> {
    /// Returns where the main interpreter's collector counts; `None` if it is none with three generations.
    pub fn automatic(&self) -> Result<Option<Automatic>, Error> {
        let [young, .., permanent] = self.generations(self.main_interpreter()?)?;
        for there in self.layout.collector.generational {
            if self.memory.u64(permanent.wrapping_add(there.first)) == Ok(young) {
                return Ok(Some(Automatic {
                    generations: young,
                    total: permanent.wrapping_add(there.total),
                }));
            }
        }
        Ok(None)
    }
}

impl Automatic {
    fn count_at(&self, generation: u64) -> u64 {
        let at = self.generations.wrapping_add(generation * GENERATION);
        at.wrapping_add(COUNT)
    }

    fn threshold(&self, memory: &impl Memory, generation: u64) -> Result<u32, Fault> {
        let at = self.generations.wrapping_add(generation * GENERATION);
        memory.u32(at.wrapping_add(THRESHOLD))
    }

    fn pending_at(&self) -> u64 {
        self.total.wrapping_add(8)
    }

    /// Returns what stands there.
    pub fn counts(&self, memory: &impl Memory) -> Result<Counts, Fault> {
        Ok(Counts {
            young: memory.u32(self.count_at(0))?,
            old: memory.u32(self.count_at(OLDEST))?,
            pending: memory.u64(self.pending_at())?,
        })
    }

    /// Returns the counts with which the VM soon collects all garbage, in the place of these; `None` where the program keeps it from that by
    /// its thresholds (`gc.set_threshold`), or numbers are none of objects.
    pub fn due(&self, memory: &impl Memory, now: Counts) -> Result<Option<Counts>, Fault> {
        let [young, middle, old] = [
            self.threshold(memory, 0)?,
            self.threshold(memory, 1)?,
            self.threshold(memory, OLDEST)?,
        ];
        let total = memory.u64(self.total)?;
        // With 0 as the first the VM never collects by itself. A negative number is a high one here.
        let has_chosen = |threshold: u32| threshold == 0 || threshold > MOST_THRESHOLD;
        let is_kept = has_chosen(young) || has_chosen(middle) || old > MOST_THRESHOLD;
        if is_kept || total > MOST_OBJECTS || now.pending > MOST_OBJECTS {
            return Ok(None);
        }
        Ok(Some(Counts {
            young: now.young.max(young.saturating_sub(SOON)),
            old: now.old.max(old + 1),
            pending: now.pending.max(total / 4 + 1),
        }))
    }

    /// Calls `write` with the address and the bytes of each word that these counts lie in.
    pub fn each_word<E>(
        &self,
        counts: Counts,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        write(self.pending_at(), &counts.pending.to_le_bytes())?;
        write(self.count_at(OLDEST), &counts.old.to_le_bytes())?;
        write(self.count_at(0), &counts.young.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::cell::RefCell;
    use std::vec;
    use std::vec::Vec;

    /// Memory from address 0 on.
    struct Bytes(RefCell<Vec<u8>>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let bytes = self.0.borrow();
            let from = bytes.get(at as usize..at as usize + into.len());
            into.copy_from_slice(from.ok_or(Fault { at })?);
            Ok(())
        }
    }

    const AUTOMATIC: Automatic = Automatic {
        generations: 16,
        total: 200,
    };

    fn memory(thresholds: [u32; 3], total: u64, counts: Counts) -> Bytes {
        let memory = Bytes(RefCell::new(vec![0; 256]));
        let put = |at: u64, bytes: &[u8]| {
            let at = at as usize;
            memory.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for (generation, threshold) in (0..).zip(thresholds) {
            put(
                16 + generation * GENERATION + THRESHOLD,
                &threshold.to_le_bytes(),
            );
        }
        put(200, &total.to_le_bytes());
        let written: Result<(), Fault> = AUTOMATIC.each_word(counts, |at, bytes| {
            put(at, bytes);
            Ok(())
        });
        written.expect("in memory");
        memory
    }

    const NOW: Counts = Counts {
        young: 5,
        old: 3,
        pending: 100,
    };

    /// As `gc_select_generation` decides after so many objects more.
    #[test]
    fn the_oldest_generation_is_due() {
        let memory = memory([700, 10, 10], 4000, NOW);
        assert_eq!(AUTOMATIC.counts(&memory), Ok(NOW));
        let due = AUTOMATIC.due(&memory, NOW).expect("read").expect("due");
        assert!(due.young <= 700 && due.young + SOON >= 700);
        assert!(due.old > 10 && due.pending >= 1000);
        // What is due anyway stays so.
        let full = Counts {
            young: 900,
            old: 50,
            pending: 9000,
        };
        assert_eq!(AUTOMATIC.due(&memory, full), Ok(Some(full)));
    }

    #[test]
    fn a_program_that_keeps_the_vm_from_it_is_left_alone() {
        let all = [
            [0, 10, 10],
            [700, 10, 1_000_000],
            [u32::MAX, 10, 10],
            [100_000, 10, 10],
            [1_000_000_000, 10, 10],
            [700, 0, 10],
            [700, 10_001, 10],
            [700, u32::MAX, 10],
        ];
        for thresholds in all {
            let memory = memory(thresholds, 4000, NOW);
            assert_eq!(AUTOMATIC.due(&memory, NOW), Ok(None), "{thresholds:?}");
        }
        let memory = memory([700, 10, 10], u64::MAX, NOW);
        assert_eq!(AUTOMATIC.due(&memory, NOW), Ok(None));
    }

    #[test]
    fn what_was_raised_is_taken_back() {
        let written = Counts {
            young: 668,
            old: 11,
            pending: 1001,
        };
        let counts = |young, old, pending| Counts {
            young,
            old,
            pending,
        };
        // Seven objects were made meanwhile, and one collection of the generation before was run.
        let now = counts(675, 12, 1031);
        assert!(!written.are_spent(now));
        assert_eq!(NOW.without(written, now), counts(12, 4, 130));
        // `gc.freeze` sets the counts of the generations to 0, and no garbage is collected.
        assert!(!written.are_spent(counts(0, 0, 1001)));
        // All was collected.
        assert!(written.are_spent(counts(2, 0, 0)));
    }
}
