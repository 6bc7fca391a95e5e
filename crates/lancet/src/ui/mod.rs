//! Where answers go: a terminal, a pipe, a file, or the live screen; and what comes from the keyboard.

pub mod advice;
pub mod interrupt;
pub mod live;
pub mod report;
pub mod sink;
pub mod terminal;
