//! The ticket of a counted call, in the three words of `routine::Frame::ticket`. The agent writes it; when the command
//! leaves, it reads the tickets on the stacks of the stopped threads. Used by the crates `agent` and `hooks`.
//!
//! ```text
//!   word 0   bits  0..32  the session
//!                 32..44  the line of its events
//!                 44..64  the lower bits of `Calls::pid`: a fork's child has copies of its parent's frames
//!   word 1   bits  0..48  address of the thread's ring
//!                 48..64  the row of the ring's tables of counts
//!   word 2   bit  63      COUNTED
//!            bits  0..63  time-stamp counter at the call
//! ```

use super::further::ALL_COUNTS;

/// In the third word: the call was counted when it began, and its return was not counted yet. The return is counted by
/// the side that clears this bit: the thread at the return, or the command that finds the frame of a call that is
/// still open.
pub const COUNTED: u64 = 1 << 63;

/// The bit at which the row begins in the second word.
pub const ROW_AT: u32 = 48;

const _: () = assert!(ALL_COUNTS <= 1 << (64 - ROW_AT));

/// Returns the session, the address of the ring and the row of a call that is open; `None` if the words are no such
/// ticket.
pub const fn open(words: [u64; 3]) -> Option<(u32, u64, u64)> {
    if words[2] & COUNTED == 0 {
        return None;
    }
    let ring = words[1] & ((1 << ROW_AT) - 1);
    Some((words[0] as u32, ring, words[1] >> ROW_AT))
}
