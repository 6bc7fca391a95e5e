//! System calls: how they are numbered, and which are open in a ring. `hooks` numbers them for the
//! agent, which keeps the open ones. Used by the crates `agent`, `trampoline` and `hooks`.

#[cfg(doc)]
use super::{Hook, Ring};

/// In [`Hook::fixed`]: the instruction makes system calls of several numbers.
pub const NO_NUMBER: u64 = u64::MAX;

/// In [`Hook::fixed`]: a function's arguments are the system call's. Its number is in rsi, its arguments are in rdx,
/// rcx, r8, r9 and on the stack.
pub const CALLED: u64 = u64::MAX - 1;

/// System calls have numbers below this. In the table of hooks by number this index is for all others. Hooks by number
/// have it as their [`Hook::place`], because no code belongs to them.
pub const SYSTEM_CALLS: u64 = 512;

/// In [`Ring::lent`]: the child of the system call gets a copy of the process's memory, so the ring is not lent to it.
pub const COPIED: u64 = 1 << 63;

/// System calls of one thread that can be open at the same time: [`Ring::system_calls`].
pub const OPEN: usize = 16;

/// A system call that has not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenSystemCall {
    /// Address of the `syscall` instruction.
    pub instruction: u64,
    /// Stack pointer at the instruction; together with `instruction` it names the call.
    pub stack: u64,
    /// Address of the [`Hook`] for its number.
    pub hook: u64,
    /// Time-stamp counter at the call.
    pub began: u64,
    /// Session and line, as in [word 0 of a frame's ticket](super::ticket).
    pub ticket: u64,
    /// Arguments of the system call as they were before it: rdi, rsi, rdx, r10, r8, r9.
    pub arguments: [u64; 6],
    /// Address of the [`Injection`](super::Injection) that concerns it; 0 = none does.
    pub injected: u64,
}

impl OpenSystemCall {
    /// An entry that is not used.
    pub const NONE: Self = OpenSystemCall {
        instruction: 0,
        stack: 0,
        hook: 0,
        began: 0,
        ticket: 0,
        arguments: [0; 6],
        injected: 0,
    };
}
