//! What reading a heap will take, as far as it is known when the process has been copied. None of it is a bound: objects may be smaller than
//! most, and have any number of references. Used by `core`, and by `lancet::commands::heap::live`.

use frames::live::loaded::{Loaded, Modules};
use heap::Budget;
use languages::ALL;
use languages::snapshot::FindHeap;
use process::error::Result;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::time::Duration;
use vm::{Language, Memory};

/// Bytes of resident memory for each object, where the VM does not say how many it has room for: a program of small objects had one for each
/// 59 (9.6 million lists, tuples, texts, numbers and instances with slots in 540 MiB), and most have fewer.
const BYTES: u64 = 56;
/// How many references most objects have, and bytes of lancet's memory for one with so many.
const REFERENCES: u64 = 2;
const MEMORY: u64 = Budget::OBJECT + REFERENCES * Budget::EDGE;
/// The time for which lancet reads an object and answers: measured with heaps of 8 and 9.6 million objects, on two processors without and
/// with other work (docs/heap.md, "The file").
const TIME: [Duration; 2] = [Duration::from_nanos(500), Duration::from_nanos(1000)];
/// Bytes of the process's memory for each reference.
const WORD: u64 = 8;

/// What reading a heap will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How many objects there may be.
    pub objects: u64,
    /// They were counted by the slots of the heap; otherwise they are estimated by its memory.
    pub counted: bool,
    /// How many references there are if the process's memory is full of them.
    pub references: u64,
    /// For how many objects with two references each there is memory, or for how many references; others will be left out.
    pub kept: [u64; 2],
    /// Bytes of memory that lancet will take, if each object has two references, and if there are as many as there may be.
    pub memory: [u64; 2],
    /// How long that will take, at least and at most, if each object has two references.
    pub time: [Duration; 2],
}

impl Expected {
    /// For a process with so many slots for objects, or if that is not known so many bytes in memory. The snapshot may have what is within
    /// `budget`.
    pub fn of(slots: Option<u64>, resident: u64, budget: Budget) -> Self {
        let objects = slots.unwrap_or(resident / BYTES);
        let references = resident / WORD;
        let room = [
            budget.objects.min(budget.bytes / MEMORY),
            budget.edges.min(budget.bytes / Budget::EDGE),
        ];
        let kept = objects.min(room[0]);
        let usual = kept.saturating_mul(MEMORY);
        let more = references.min(room[1]);
        let more = more.saturating_sub(kept.saturating_mul(REFERENCES));
        Expected {
            objects,
            counted: slots.is_some(),
            references,
            kept: room,
            memory: [
                usual,
                usual
                    .saturating_add(more.saturating_mul(Budget::EDGE))
                    .min(budget.bytes),
            ],
            time: TIME.map(|each| Duration::from_nanos(each.as_nanos() as u64 * kept)),
        }
    }
}

/// Finds out what reading the heap of a running process will take. The process is only read, and does not stop.
///
/// # Errors
/// It cannot be opened.
pub fn of_process(pid: i32) -> Result<Expected> {
    let all = crate::in_memory(pid)?.1;
    Ok(Expected::of(slots(pid, all)?, all, Budget::of_memory(all)))
}

/// How many slots for objects its heap has; `None` where no VM is found that says so, or where that changed while it was read.
fn slots(pid: i32, all: u64) -> Result<Option<u64>> {
    let memory = GuestMemory::open(pid)?;
    // Without the files that it has loaded, its memory says as much.
    let Ok(modules) = Modules::of_guest(pid, &Maps::of(pid)?, &memory) else {
        return Ok(None);
    };
    let counted = ALL.iter().find_map(|entry| {
        let module = module_of(&modules, &memory, entry.language)?;
        let symbol = |name: &str| module.exported(&memory, name);
        match entry.heap {
            FindHeap::Told(find) => find(&memory, &symbol).ok()?.slots(&memory, all),
            FindHeap::ReadAlone(_) => None,
        }
    });
    Ok(counted)
}

/// Returns the module that exports the symbol that identifies a VM.
pub(crate) fn module_of<'a>(
    modules: &'a Modules,
    memory: &dyn Memory,
    language: Language,
) -> Option<&'a Loaded> {
    let mark = language.description().mark;
    modules
        .iter()
        .find(|one| one.exported(memory, mark).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_costs_nothing() {
        let all = Budget::default();
        let counted = Expected::of(Some(8_000_000), 128_000_000, all);
        assert!(counted.counted && counted.objects == 8_000_000);
        assert_eq!(counted.memory, [480_000_000; 2]);
        assert_eq!(counted.time.map(|time| time.as_secs()), [4, 8]);
        let some = Budget {
            objects: 2_000_000,
            edges: 10_000_000,
            ..all
        };
        let less = Expected::of(Some(8_000_000), 1 << 30, some);
        assert_eq!(
            (less.objects, less.kept),
            (8_000_000, [2_000_000, 10_000_000])
        );
        assert_eq!(less.memory, [120_000_000, 120_000_000 + 6_000_000 * 16]);
        let tight = Expected::of(Some(8_000_000), 1 << 30, all.affording(120_000_000));
        assert_eq!(
            (tight.kept, tight.memory),
            ([2_000_000, 7_500_000], [120_000_000; 2])
        );
        let estimated = Expected::of(None, 560_000_000, all);
        assert!(!estimated.counted && estimated.objects == 10_000_000);
    }

    /// A few large arrays: the objects say nothing of it.
    #[test]
    fn references_may_take_more_than_objects() {
        let large = Expected::of(Some(100_000), 8_001_600_000, Budget::default());
        assert_eq!(large.references, 1_000_200_000);
        assert_eq!(large.memory, [6_000_000, 6_000_000 + 16_000_000_000]);
    }
}
