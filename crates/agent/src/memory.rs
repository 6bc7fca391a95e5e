//! What a program without libc brings along.

mod builtins;
pub mod direct;
pub mod store;
pub mod sys;
