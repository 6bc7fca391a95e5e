//! What is asked of hooks, and how it went.

use super::Role;
use crate::functions::Function;
use routine::frame::Guard;
use std::time::Duration;
#[cfg(doc)]
use wire::calls::Hook;

/// How a guest is traced.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of each thread's ring; a power of two.
    pub ring: u64,
    /// How long a hook waits for room in it before it drops what it has to say.
    pub most_wait: Duration,
    /// Words that a record has for copies of what arguments point to.
    pub room: u64,
    /// What lines are looked through for: words for `capture::condition::line_bits`.
    pub line_tests: Vec<u64>,
    /// Whose line is told: a [`wire::calls::teller`].
    pub teller: u64,
    /// Children are followed.
    pub follow: bool,
}

/// A process that ends waits for at least so long until all was read, and a child until it is followed.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// And for so many times the longest wait of a call.
const PATIENCE: u32 = 20;

impl Options {
    /// How long a call waits, and a process at its end.
    pub(super) fn waits(&self) -> [Duration; 2] {
        let longer = self.most_wait.saturating_mul(PATIENCE);
        [self.most_wait, longer.max(LEAST_PATIENCE)]
    }
}

/// A function that is to be hooked.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which.
    pub function: Function,
    /// [`wire::calls::want`].
    pub want: u64,
    /// Bytes of stack arguments that its prototype has; `None` = not known.
    pub stack: Option<u32>,
    /// Code that calls are told from, as for [`Hook::callers`]; empty = from everywhere.
    pub callers: Vec<u64>,
    /// Programs of crate `capture`, for the call and for its return; empty = nothing to copy.
    pub copy: [Vec<u64>; 2],
    /// It is a probe in mid-function: the address of its users' counter, or 0. `copy` has a program for it, and its arguments'
    /// [operands](wire::calls::operand).
    pub probe: Option<u64>,
    /// Conditions of crate `capture` that the call and its return must meet to be told; empty = none.
    pub asks: [Vec<u64>; 2],
    /// What one argument decides of it before that.
    pub guard: Option<Guard>,
    /// Calls of less than so many cycles are not told; only with [`want::HELD`](wire::calls::want::HELD).
    pub least_ticks: u64,
    /// Which of the agent's routines it leads to.
    pub routine: usize,
    /// Several functions of the script's language that have this code in common, each with what tells it from the
    /// others; calls of others are not told. Empty = it is this one function.
    pub names: Vec<(u64, Function)>,
    /// What it is of.
    pub role: Role,
}

impl Wanted {
    /// Nothing of a function yet.
    pub fn of(function: Function) -> Self {
        Wanted {
            function,
            want: 0,
            stack: Some(0),
            callers: Vec::new(),
            copy: [Vec::new(), Vec::new()],
            probe: None,
            asks: [Vec::new(), Vec::new()],
            guard: None,
            least_ticks: 0,
            routine: CALL_THROUGH,
            names: Vec::new(),
            role: Role::Function,
        }
    }
}

/// [`Wanted::routine`] of a function whose calls are told.
pub const CALL_THROUGH: usize = 0;
/// That of a probe.
pub const PROBE: usize = 1;
/// That of the unwinder's search for rules.
pub(super) const FIND_FDE: usize = 2;

/// A function that is not hooked, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Which.
    pub function: Function,
    /// Why.
    pub reason: String,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// The longest time that the guest stood still.
    pub longest_stop: Duration,
    /// All stops together.
    pub stopped: Duration,
    /// How many.
    pub stops: u32,
}
