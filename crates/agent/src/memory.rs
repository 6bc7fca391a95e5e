//! What a program without libc must provide itself: system calls, tables, and memory functions.

pub mod bound;
#[cfg_attr(
    panic = "unwind",
    allow(
        dead_code,
        reason = "called by compiled code of the program alone; tests call some"
    )
)]
mod builtins;
pub mod copied;
pub mod direct;
pub mod follow;
pub mod instruction;
#[cfg(miri)]
pub mod interpreted;
pub mod store;
pub mod sys;
