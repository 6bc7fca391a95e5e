//! `lancet companion`: serves the program that has started it, for the doors from inside (`gem/`, `python/`).
//!
//! A program cannot open itself, so it starts a lancet that opens it, and asks that one through a socket: a request a line,
//! answers a line ([docs/inside.md](../../../../../docs/inside.md)). The companion stays, because opening takes milliseconds and a
//! request some microseconds.
//!
//! It is no child of the program: whoever waits for all of its children would wait for it, or be told of its end. So the lancet
//! that the program starts (and waits for) starts another one, in a session of its own, and ends.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the command line |
//! | [`run`](mod@run) | requests, one after the other, until the program ends |
//! | [`protocol`] | requests and answers as lines |
//! | [`blocks`] | births of blocks: what `mem` counts, told apart by block |
//! | [`counters`] | calls of one thread between two marks, added up |
//! | [`watches`] | `calls`, `syscalls` and `stack`, run for the program |

mod args;
mod blocks;
mod counters;
mod protocol;
mod run;
mod watches;

pub use args::CompanionArgs;
pub use run::run;
