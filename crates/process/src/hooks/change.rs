//! What is changed for a hook: a function's entry, or the place of a probe.

use trampoline::probe::ProbePlan;
use trampoline::{Destination, Patch, Plan, Refusal, Stub};

/// See the module's text.
pub(super) enum Change {
    /// With the bytes of stack arguments that the function's code may read.
    Entry(Plan, u32),
    /// In mid-function.
    Probe(ProbePlan),
}

impl Change {
    /// Where it begins.
    pub fn at(&self) -> u64 {
        match self {
            Change::Entry(plan, _) => plan.patch_at,
            Change::Probe(plan) => plan.patch_at,
        }
    }

    /// Bytes that run in the stub instead.
    pub fn stolen(&self) -> usize {
        match self {
            Change::Entry(plan, _) => plan.stolen,
            Change::Probe(plan) => plan.stolen,
        }
    }

    /// Bytes of stack arguments that the original is given.
    pub fn copied(&self) -> u32 {
        match self {
            Change::Entry(_, copied) => *copied,
            Change::Probe(_) => 0,
        }
    }

    /// No stub of it is longer.
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

    /// What is written into the module, in this order.
    pub fn patches(&self, stub: u64) -> Result<Vec<Patch>, Refusal> {
        match self {
            Change::Entry(plan, _) => plan.patches(stub),
            Change::Probe(plan) => plan.patches(stub),
        }
    }
}
