//! Parked fibers: what any VM notes of a native stack that no thread runs. Used by `php::fiber` and `ruby::fiber`, and
//! by `languages::frames`.

use core::ops::Range;

/// The registers with which a parked fiber goes on, and its stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The address at which it goes on, rip.
    pub ip: u64,
    /// The stack pointer with which it goes on there, rsp.
    pub sp: u64,
    /// The frame pointer, rbp.
    pub bp: u64,
    /// The machine stack, from its lowest address to its outer end. Empty where the fiber is the first of its thread,
    /// which runs on the stack of the thread.
    pub stack: Range<u64>,
}
