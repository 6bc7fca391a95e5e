//! What is asked of the image before `enter`, `leave` and `probe`: functions that use no vector register, so that none is kept.
//! Used by `code::call_through` and `code::probe`, and by `agent::calls::quick` and
//! `agent::calls::system_calls::quick`.
//!
//! They are `unsafe extern "C" fn(*mut Frame, *const Room) -> u64` at the call, and `(*mut Frame, *const Results) -> u64` at
//! the return, and `(*const ProbeFrame, *const Room) -> u64` at a probe, whose vector registers are not in memory then. The image answers for it that neither they nor what they
//! call touches one. They are not asked where the caller's stack has no room (`room`): there keeping vector registers is
//! the least of the costs.

/// At the call: it is not seen, as if `enter` had answered 0.
pub const UNSEEN: u64 = 0;
/// It is done: at the call, the return is wanted too; at the return, `leave` is not called; nor is `probe`.
pub const DONE: u64 = 1;
/// `enter`, `leave` or `probe` is called.
pub const ASK: u64 = 2;
/// In the second word of a call's ticket: it went this way, so its vector registers are not kept. The rest of the word is the address of the
/// thread's [`Room`](crate::Room).
pub const MARK: u64 = 1;
