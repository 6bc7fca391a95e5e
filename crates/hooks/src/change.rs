//! The plan of a hook: at the entry of a function, or at an instruction within one. Used by `built`, `planned`, `set`
//! and others.

use std::ops::Range;
use trampoline::probe::ProbePlan;
use trampoline::{Destination, Inline, Kind, Patch, Plan, Refusal, Stub};

/// A plan: which bytes are replaced, and how the stub is made.
pub(crate) enum Change {
    /// At a function's entry; with the size in bytes of the stack arguments that its code may read.
    Entry(Plan, u32),
    /// At an instruction within a function; the stub returns behind it, and no frame is made.
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

    /// The bytes that are changed or moved, and those of the padding that holds a jump.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let moved = self.stolen().max(5) as u64;
        let pad = match self {
            Change::Entry(plan, _) => match plan.kind {
                Kind::Short { pad } => Some(pad..pad + 5),
                _ => None,
            },
            Change::Probe(_) => None,
        };
        std::iter::once(self.at()..self.at() + moved).chain(pad)
    }

    /// The code whose instructions run in the stub instead.
    pub fn code(&self) -> Range<u64> {
        self.at()..self.at() + self.stolen() as u64
    }

    /// The number of bytes of stack arguments that the routine copies for the original.
    pub fn copied(&self) -> u32 {
        match self {
            Change::Entry(_, copied) => *copied,
            Change::Probe(_) => 0,
        }
    }

    /// The largest size of its stub, in bytes; `inline`: with [`Inline`].
    pub fn most(&self, inline: bool) -> usize {
        match self {
            Change::Entry(plan, _) => plan.most(),
            Change::Probe(plan) => plan.most(inline),
        }
    }

    /// Makes the stub as it is to stand at address `at`; with `inline` it does the work of system calls by itself, if it may.
    pub fn stub(&self, at: u64, to: Destination, inline: Option<Inline>) -> Result<Stub, Refusal> {
        match self {
            Change::Entry(plan, _) => plan.stub(at, to),
            Change::Probe(plan) => plan.stub(at, to, inline),
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
