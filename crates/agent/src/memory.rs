//! What a program without libc must provide itself: system calls, tables, and
//! memory functions.

mod builtins;
pub mod copied;
pub mod direct;
pub mod follow;
pub mod store;
pub mod sys;
