//! What the commands share of the terminal: where answers go, what an error means to the user, and Ctrl-C.

pub mod advice;
pub mod closed;
pub mod file;
pub mod interrupt;
pub mod patient;
pub mod piped;
pub mod progress;
pub mod queued;
pub mod screen;
pub mod sink;
pub mod terminal;
