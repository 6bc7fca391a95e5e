//! `lancet calls` on real processes: hooked, heard, left, and no worse for it.
//!
//! | file | what is held |
//! |---|---|
//! | `nasty` | Rubies whose frames leave the stack in every order but the one they came in |
//! | `machine` | C and C++: exceptions, longjmp, contexts, signals, threads, fork, every way to pass an argument |
//! | `exact` | every call is counted, every call is told, with its arguments and result |
//! | `ltrace` | `--ltrace`: lines as ltrace prints them, `-e`, `-l`, `-x`, `-C`, `-w` |
//! | `killed` | `kill -9` of lancet at random instants |
//! | `watch` | lancet at work, and programs of `fixtures/c` |
//!
//! The environment variables are those of the tests in `live`, whose harness this shares.

#[allow(dead_code, unused_imports, reason = "each target uses its part")]
#[path = "../live/harness/mod.rs"]
mod harness;

mod exact;
mod killed;
mod ltrace;
mod machine;
mod nasty;
mod watch;
