//! The plan of a hook, whether it is at the entry of a function or within one.

use trampoline::probe::ProbePlan;
use trampoline::{Destination, Patch, Plan, Refusal, Stub};

/// A plan: which bytes are replaced, and how the stub is made.
pub(crate) enum Change {
    /// At a function's entry; with the size in bytes of the stack arguments that its code may read.
    Entry(Plan, u32),
    /// Within a function.
    Probe(ProbePlan),
}

impl Change {
    /// The address of the first byte that is replaced.
    pub fn at(&self) -> u64 {
        match self {
            Change::Entry(plan, _) => plan.patch_at,
            Change::Probe(plan) => plan.patch_at,
        }
    }

    /// The number of bytes whose instructions run in the stub instead.
    pub fn stolen(&self) -> usize {
        match self {
            Change::Entry(plan, _) => plan.stolen,
            Change::Probe(plan) => plan.stolen,
        }
    }

    /// The number of bytes of stack arguments that the routine copies for the original.
    pub fn copied(&self) -> u32 {
        match self {
            Change::Entry(_, copied) => *copied,
            Change::Probe(_) => 0,
        }
    }

    /// The largest size of its stub, in bytes.
    pub fn most(&self) -> usize {
        match self {
            Change::Entry(plan, _) => plan.most(),
            Change::Probe(plan) => plan.most(),
        }
    }

    /// The stub for address `at`.
    pub fn stub(&self, at: u64, to: Destination) -> Result<Stub, Refusal> {
        match self {
            Change::Entry(plan, _) => plan.stub(at, to),
            Change::Probe(plan) => plan.stub(at, to),
        }
    }

    /// The patches, in the order in which they must be written: a jump in padding comes before the one that leads to
    /// it.
    pub fn patches(&self, stub: u64) -> Result<Vec<Patch>, Refusal> {
        match self {
            Change::Entry(plan, _) => plan.patches(stub),
            Change::Probe(plan) => plan.patches(stub),
        }
    }
}
