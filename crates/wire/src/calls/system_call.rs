//! System calls: how they are numbered, and which are open in a ring.

#[cfg(doc)]
use super::{Hook, Ring};

/// See [`Hook::fixed`].
pub const NO_NUMBER: u64 = u64::MAX;

/// See [`Hook::fixed`]: the number is in rsi, the arguments are in rdx, rcx, r8, r9 and on the stack.
pub const CALLED: u64 = u64::MAX - 1;

/// System calls have numbers below this; in the table of hooks by number this one is for all others. Hooks by number
/// have it as their [`Hook::place`], where no code is.
pub const SYSTEM_CALLS: u64 = 512;

/// See [`Ring::system_calls`].
pub const OPEN: usize = 16;

/// A system call that has not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenSystemCall {
    /// The instruction.
    pub instruction: u64,
    /// The stack pointer: with the instruction it names the call.
    pub stack: u64,
    /// The hook of its number.
    pub hook: u64,
    /// Time-stamp counter.
    pub began: u64,
    /// As in a frame's ticket: the session, the line.
    pub ticket: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl OpenSystemCall {
    /// None.
    pub const NONE: Self = OpenSystemCall {
        instruction: 0,
        stack: 0,
        hook: 0,
        began: 0,
        ticket: 0,
        arguments: [0; 6],
    };
}
