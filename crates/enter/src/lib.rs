//! The ways into a VM: a running process is entered so that its VM evaluates a text, or so that it makes a copy of itself, and is left.
//!
//! | module | what |
//! |---|---|
//! | `entered` | a process with an agent in it that its main thread calls: opened, copied wherever it stands, left |
//! | `ruby` | how a Ruby is entered: to evaluate, to be copied, to have its collections timed; its births are counted by crate `births` |
//! | `python` | how a Python is entered, to evaluate, to be copied, or to have its births counted |
//! | `copied` | what a process is asked for that makes a copy of itself, and whether there is room for one |
//! | `copy` | such a copy from outside: found, its pipe read until a deadline, confined where it runs code of the process's, killed |
//! | `interpreter`, `entries` | what evaluates texts, and which language's VM is asked to |
//! | `script` | the text that is evaluated, and its answer, in the agent's memory |
//! | `literal` | texts as literals that all these languages read alike |
//!
//! Which functions of a VM may be called at a stop is the list [`vm::Door`], and `inject::doors` calls them. [`open`] has the table of what
//! each language can be asked for.
//!
//! A text is one expression that evaluates to a string of at most 64 KiB ([`wire::Script`]). It must rescue what it raises. The
//! process is stopped only to make the request; the text runs like code of the program, at a safe point of its VM and with the VM's lock.
//! The VM itself evaluates it, so its caches and compiled code remain valid.

#![forbid(unsafe_code)]

pub mod copied;
pub mod copy;
mod entered;
mod entries;
mod interpreter;
mod literal;
mod python;
mod ruby;
pub mod script;

pub use entered::{Entered, Reached};
pub use entries::{evaluates, open};
pub use inject::Timing;
pub use interpreter::Interpreter;
pub use literal::literal;
pub use python::{CopyablePython, CountedPython};
pub use ruby::{Books, Counting, Lines, Opening, Ruby, RubyGuest, Sites, because};

use std::time::Duration;
use wire::Config;

/// Time without a heartbeat after which the agent leaves by itself.
const DESERTED_AFTER: Duration = Duration::from_secs(5);
/// With what an agent is claimed: as wanted, in a session of its own, and by a command that it gives up after [`DESERTED_AFTER`].
fn claiming(wanted: Config) -> Config {
    Config {
        session: inject::heartbeat::unique(),
        heartbeat_ticks: inject::heartbeat::ticks(DESERTED_AFTER),
        ..wanted
    }
}

/// What is said of an agent that has left so.
const DESERTED: &str = "it heard nothing from us for 5 s";
