//! What reading a heap will take, as far as it is known when the process has been copied.

use std::time::Duration;

/// Bytes of resident memory for each object, where the VM does not say how many it has room for: a program of small objects had one for each
/// 59 (9.6 million lists, tuples, texts, numbers and instances with slots in 540 MiB), and most have fewer.
const BYTES: u64 = 56;
/// Bytes of lancet's memory for each object with two references, and the time for which it reads and answers: measured with heaps of 8 and
/// 9.6 million objects, on two processors without and with other work (docs/heap.md, "The file").
const MEMORY: u64 = 60;
const TIME: [Duration; 2] = [Duration::from_nanos(500), Duration::from_nanos(1000)];

/// What reading a heap will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How many objects there may be.
    pub objects: u64,
    /// They were counted by the slots of the heap; otherwise they are estimated by its memory.
    pub counted: bool,
    /// Of how many there is memory for the snapshot; others will be left out.
    pub kept: u64,
    /// Bytes of memory that lancet will take for them.
    pub memory: u64,
    /// How long that will take, at least and at most.
    pub time: [Duration; 2],
}

impl Expected {
    /// For a process with so many slots for objects, or if that is not known so many bytes in memory. The snapshot may have so many objects.
    pub fn of(slots: Option<u64>, resident: u64, kept: u64) -> Self {
        let objects = slots.unwrap_or(resident / BYTES);
        let told = objects.min(kept);
        Expected {
            objects,
            counted: slots.is_some(),
            kept,
            memory: told.saturating_mul(MEMORY),
            time: TIME.map(|each| Duration::from_nanos(each.as_nanos() as u64 * told)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_costs_nothing() {
        let counted = Expected::of(Some(8_000_000), 1 << 30, u64::MAX);
        assert!(counted.counted && counted.objects == 8_000_000);
        assert_eq!(counted.memory, 480_000_000);
        assert_eq!(counted.time.map(|time| time.as_secs()), [4, 8]);
        let less = Expected::of(Some(8_000_000), 1 << 30, 2_000_000);
        assert_eq!((less.objects, less.kept), (8_000_000, 2_000_000));
        assert_eq!(less.memory, 120_000_000);
        let estimated = Expected::of(None, 560_000_000, u64::MAX);
        assert!(!estimated.counted && estimated.objects == 10_000_000);
    }
}
