//! Calls of C functions, of functions of a script's language, and of system calls: which are wanted, where they come
//! from, and what is known of each.
//!
//! ```text
//!   live guests (`Family`) ──┐                    ┌─► formats of crate `report`
//!                            ├─► Source ─► Event ─┼─► `Recorder` (a file, by crate `recording`)
//!   a recording (`Replay`) ──┘                    └─► `Rows` (counts and times by function and line)
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`options`] | what the user wants, without a command line |
//! | [`message`] | what the user is told on the way, as values; whoever runs us prints them |
//! | [`event`] | the one form of a call, a return, a signal, a fork, an end |
//! | [`source`], [`consumer`] | who makes events, and who takes them |
//! | `live` | events of running guests |
//! | [`replay`], [`recorder`] | events from and into a file |
//! | `select`, `conditions`, [`filter`] | which calls are hooked, reported and shown |
//! | [`preset`], `groups` | functions for a question, and what makes their calls the same |
//! | [`tamper`] | what is injected into system calls |
//! | [`never_occurred`] | lines and injections that were asked for and never came |
//! | [`signatures`] | the prototype of each function |
//! | [`stacks`], [`summary`] | which calls are open; how often and how long |
//! | [`descriptors`], [`allocations`] | which descriptors are still open; what is allocated and not freed |
//! | [`memo`] | what was worked out of a thing that many events share |
//! | [`window`] | which part of a recording is looked at |
//!
//! This crate prints nothing and knows no command line: it is driven by [`options::Options`], and what it has to say goes to
//! [`message::Messages`].

pub mod allocations;
mod conditions;
pub mod consumer;
pub mod debug;
pub mod descriptors;
mod error;
pub mod event;
pub mod filter;
mod groups;
pub mod in_function;
mod live;
pub mod memo;
pub mod message;
pub mod never_occurred;
pub mod options;
pub mod preset;
pub mod recorder;
pub mod replay;
mod select;
pub mod signals;
pub mod signatures;
pub mod site;
pub mod source;
pub mod stacks;
pub mod summary;
pub mod tamper;
pub mod window;

pub use error::Error;
pub use hooks::policy::is_told_at_entry_only;
pub use hooks::rings::{Line, Losses};
pub use live::Family;
pub use process::functions::Function;
