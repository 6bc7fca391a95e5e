//! The ways into a VM: a running process is entered so that its VM evaluates a text, or so that it makes a copy of itself, and is left.
//!
//! | module | what |
//! |---|---|
//! | `languages` | the table of the languages whose VMs are entered, and who asks it; below it how each is entered, a folder a language |
//! | `counted_vm` | how a VM that is asked through its agent counts and is left: what the languages share |
//! | `interpreter`, `counted`, `copyable`, `timer` | what a VM is entered for: to evaluate texts, to have its births counted, to be copied, to have its collections timed |
//! | `opening`, `counting` | with what an agent is configured for it; how births are counted until a process is copied |
//! | `entered` | a process with an agent in it that its main thread calls: opened, copied wherever it stands, left |
//! | `copied` | what a process is asked for that makes a copy of itself, and whether there is room for one |
//! | `copy` | such a copy from outside: found, its pipe read until a deadline, confined where it runs code of the process's, killed |
//! | `handed` | what the agent is given of a VM |
//! | `script` | the text that is evaluated, and its answer, in the agent's memory |
//! | `farewell` | why an agent has left by itself |
//!
//! Which functions of a VM may be called at a stop is the list [`vm::Door`], and `inject::doors` calls them.
//!
//! A text is one expression that evaluates to a string of at most 64 KiB ([`wire::Script`]). It must rescue what it raises. The
//! process is stopped only to make the request; the text runs like code of the program, at a safe point of its VM and with the VM's lock.
//! The VM itself evaluates it, so its caches and compiled code remain valid.

#![forbid(unsafe_code)]

pub mod copied;
pub mod copy;
mod copyable;
mod counted;
mod counted_vm;
mod counting;
mod entered;
mod farewell;
mod handed;
mod interpreter;
mod languages;
mod opening;
pub mod script;
mod timer;

pub use self::languages::{
    counts_births, open, open_at_script, open_counted, open_to_copy, open_to_time, run_scripts,
};
pub use copyable::Copyable;
pub use counted::{Awaited, Counted};
pub use counting::{Books, Counting, Lines, Sites};
pub use entered::{Entered, Reached};
pub use farewell::because;
pub use inject::Timing;
pub use interpreter::Interpreter;
pub use opening::Opening;
pub use timer::CollectionTimer;

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
