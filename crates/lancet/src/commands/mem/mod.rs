//! `lancet mem`: which `file:line:Type` holds the memory?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | running processes, opened and reported on |
//! | [`attached`], [`cost`] | the processes that are open, and what is said of each look; what one will cost |
//! | [`started`] | a program that lancet starts |
//! | [`live`] | the screen of `--live` |

mod args;
mod attached;
mod cost;
mod live;
mod run;
mod started;

pub use args::MemArgs;
pub use run::run;
